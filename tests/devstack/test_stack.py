"""The stack's own rules, without starting a server."""

import json
import sys
from pathlib import Path

import pytest

from devstack import rabbitmq, record
from devstack.apps import app_parts, with_ready_file
from devstack.doctor import run_checks
from devstack.errors import BinaryMissing, ServiceUnreachable, StackRunning
from devstack.part import Part, PartState
from devstack.ports import AppPorts
from devstack.record import Endpoints
from devstack.stack import Stack

ENDPOINTS = Endpoints(
    "postgresql://u:secret@127.0.0.1:1/giveway", "amqp://127.0.0.1:2/", "127.0.0.1:3", None, "giveway"
)
CLOSED = {"DATABASE_URL": "postgresql://u:secret@127.0.0.1:1/none", "TEMPORAL_ADDRESS": "127.0.0.1:1"}


async def test_one_state_folder_runs_one_stack(tmp_path: Path) -> None:
    async with Stack(tmp_path, services=()):
        with pytest.raises(StackRunning):
            await Stack(tmp_path, services=()).__aenter__()
    async with Stack(tmp_path, services=()):
        pass


@pytest.mark.parametrize(("service", "variable"), [("postgres", "DATABASE_URL"), ("temporal", "TEMPORAL_ADDRESS")])
async def test_a_given_service_that_does_not_answer_is_named(tmp_path: Path, service: str, variable: str) -> None:
    with pytest.raises(ServiceUnreachable, match=variable) as failure:
        await Stack(tmp_path, environ=CLOSED, services={service}).__aenter__()
    assert "secret" not in str(failure.value)
    assert record.find(tmp_path) is None


async def test_a_running_stack_is_found_by_its_file_and_a_dead_one_is_not(tmp_path: Path) -> None:
    async with Stack(tmp_path, services=()):
        assert record.find(tmp_path) is not None
        assert (tmp_path / "stack.json").stat().st_mode & 0o077 == 0
        left = json.loads((tmp_path / "stack.json").read_text())
    assert record.find(tmp_path) is None
    left["supervisor"]["started"] += 1
    (tmp_path / "stack.json").write_text(json.dumps(left))
    assert record.find(tmp_path) is None


async def test_an_application_part_is_ready_when_it_writes_its_file(tmp_path: Path) -> None:
    code = "import os, pathlib, time; pathlib.Path(os.environ['GIVEWAY_READY_FILE']).touch(); time.sleep(600)"
    async with Stack(tmp_path, services=()) as stack:
        await stack.supervise(with_ready_file(Part(name="worker", argv=(sys.executable, "-c", code)), tmp_path))
        assert [(part.name, part.state) for part in stack.status()] == [("worker", PartState.RUNNING)]
        assert stack.pid("worker") is not None


def test_the_application_starts_after_its_migrations_and_knows_its_stack(tmp_path: Path) -> None:
    parts = app_parts(ENDPOINTS, tmp_path, AppPorts(api=8080, hub=8081), {})
    assert [(part.name, part.one_shot) for part in parts] == [("migrate", True), ("serve", False), ("worker", False)]
    again = app_parts(ENDPOINTS, tmp_path, AppPorts(api=8080, hub=8081), {})
    assert parts[1].env == again[1].env
    assert parts[1].env["RAW_STORE_URL"] == (tmp_path / "raw").as_uri()
    assert len(parts[1].env["JWT_DEV_KEY"]) >= 32


async def test_doctor_says_for_each_problem_what_to_do(tmp_path: Path) -> None:
    checks = {check.name: check for check in await run_checks({**CLOSED, "GIVEWAY_API_PORT": "none"}, tmp_path)}
    assert checks["python"].ok
    assert checks["temporal-dev.yml"].ok
    for name in ("DATABASE_URL", "TEMPORAL_ADDRESS", "port GIVEWAY_API_PORT"):
        assert not checks[name].ok
        assert checks[name].fix


async def test_without_a_broker_the_error_names_the_variable_and_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rabbitmq, "_SERVERS", ())
    with pytest.raises(BinaryMissing) as failure:
        await Stack(tmp_path, environ={"AMQP_URL": "amqp://127.0.0.1:1/"}, services={"rabbitmq"}).__aenter__()
    assert "AMQP_URL=" in failure.value.fix
    assert "apt-get install" in failure.value.fix
