"""The real program: its exit codes and what it says about ordinary mistakes."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
NOWHERE = "postgresql://nobody@127.0.0.1:9/nothing"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cli", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_help_names_the_command_and_succeeds() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "Usage: giveway" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-verb",),
        ("desktop", "--speed", "-1"),
        ("tenant", ""),
        ("bench", "no-such-bench"),
        ("demo", "--speed", "x"),
    ],
)
def test_wrong_usage_is_exit_code_2_without_a_traceback(arguments: tuple[str, ...]) -> None:
    done = run(*arguments, DATABASE_URL=NOWHERE)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Error" in done.stderr


def test_an_unreachable_database_is_exit_code_1_and_says_what_to_do() -> None:
    done = run("tenant", "acme", DATABASE_URL=NOWHERE)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "make up" in done.stderr


def test_a_database_that_does_not_let_us_in_is_exit_code_1_and_says_what_to_do(database_url: str) -> None:
    server = urlsplit(database_url)
    for stranger in (
        server._replace(path="/no_such_database"),
        server._replace(netloc=f"nobody@{server.netloc.rpartition('@')[2]}"),
    ):
        done = run("clients", "list", DATABASE_URL=stranger.geturl())
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert "make up" in done.stderr


def test_a_command_that_finds_something_missing_fails() -> None:
    done = run("doctor", PATH="/nonexistent", AMQP_URL="amqp://127.0.0.1:9/", DATABASE_URL=NOWHERE)
    assert "miss" in done.stdout
    assert done.returncode == 1


def test_an_answers_folder_that_is_not_there_is_named() -> None:
    done = run("demo", "--answers", "/no/such/folder")
    assert done.returncode == 1
    assert "answers_folder_missing" in done.stderr
    assert "/no/such/folder" in done.stderr
