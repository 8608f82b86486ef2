"""The application's own processes on the stack: migrations, the API with the hub, the worker."""

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from devstack import probes
from devstack.config import REPOSITORY
from devstack.files import kept_secret
from devstack.part import Part
from devstack.ports import AppPorts
from devstack.record import Endpoints


def app_environment(
    endpoints: Endpoints, state_dir: Path, ports: AppPorts, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The caller's environment with the addresses of this stack."""
    raw = state_dir.resolve() / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    return {
        **environ,
        "DATABASE_URL": endpoints.database_url,
        "AMQP_URL": endpoints.amqp_url,
        "TEMPORAL_ADDRESS": endpoints.temporal_address,
        "TEMPORAL_NAMESPACE": endpoints.temporal_namespace,
        "API_PORT": str(ports.api),
        "HUB_PORT": str(ports.hub),
        "WORKER_METRICS_PORT": str(ports.metrics),
        "RAW_STORE_URL": environ.get("RAW_STORE_URL") or raw.as_uri(),
        "JWT_DEV_KEY": environ.get("JWT_DEV_KEY") or kept_secret(state_dir / "jwt-dev.key", 32),
        "PYTHONUNBUFFERED": "1",
    }


def app_parts(
    endpoints: Endpoints, state_dir: Path, ports: AppPorts, environ: Mapping[str, str] = os.environ
) -> list[Part]:
    """`migrate` (runs to its end), `serve` and `worker`, in the order of start."""
    env = app_environment(endpoints, state_dir, ports, environ)
    return [
        replace(_command("migrate", env), one_shot=True),
        replace(_command("serve", env), ready=partial(probes.http_ok, f"http://127.0.0.1:{ports.api}/healthz")),
        with_ready_file(_command("worker", env), state_dir),
    ]


def with_ready_file(part: Part, state_dir: Path) -> Part:
    """The part counts as ready once it writes the file that `GIVEWAY_READY_FILE` names."""
    path = state_dir.resolve() / "run" / f"{part.name}.ready"
    return replace(
        part,
        env={**part.env, "GIVEWAY_READY_FILE": str(path)},
        ready=partial(probes.file_exists, path),
        # The file of the process that died must not make the next one look ready.
        before=partial(path.unlink, missing_ok=True),
    )


def _command(name: str, env: Mapping[str, str]) -> Part:
    return Part(name=name, argv=(sys.executable, "-m", "cli", name), env=env, cwd=REPOSITORY, grace=40.0)
