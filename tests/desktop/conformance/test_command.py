"""`giveway desktop conformance` as it is typed."""

import json
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from commands.desktop import app
from desktop.conformance.hub_suite import HubUnreachable

REPOSITORY = Path(__file__).resolve().parents[3]


def test_the_command_drives_the_client_that_it_starts(tmp_path: Path) -> None:
    client = (
        f"exec {sys.executable} -m cli desktop --driver replay --speed 0 --state {tmp_path}"
        " --api $GIVEWAY_API_URL --token any --workspace 1"
    )
    only = ("--only", "task.result", "--only", "order.unheld")
    done = subprocess.run(
        [sys.executable, "-m", "cli", "desktop", "conformance", "--serve", "--json", *only, "--command", client],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    address, report = (json.loads(line) for line in done.stdout.splitlines())
    assert done.returncode == 0, done.stdout + done.stderr
    assert address.keys() == {"ws_url", "api_url", "client_id", "device_token"}
    assert [check["outcome"] for check in report["checks"]] == ["passed", "passed"]


def test_a_client_that_does_not_come_is_exit_code_1_and_skipped_not_passed() -> None:
    done = CliRunner().invoke(
        app, ["conformance", "--serve", "--command", "true", "--only", "task.result", "--arrival", "1"]
    )
    assert done.exit_code == 1
    assert "no client has connected" in " ".join(done.output.split())
    assert "0 passed, 0 failed, 1 skipped" in done.output


def test_a_hub_that_is_not_there_is_said_to_be_so() -> None:
    url = "ws://127.0.0.1:9/api/desktop/ws"
    done = CliRunner().invoke(app, ["conformance", "--url", url, "--api", "http://127.0.0.1:9"])
    assert done.exit_code == 1
    assert isinstance(done.exception, HubUnreachable)
    assert url in done.exception.message


def test_neither_a_hub_nor_a_client_is_wrong_usage() -> None:
    done = CliRunner().invoke(app, ["conformance", "--api", "http://127.0.0.1:9"])
    assert done.exit_code == 2
    assert "--serve" in done.output
