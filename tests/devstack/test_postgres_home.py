"""PostgreSQL's command line, and what a crash leaves of its lock file, which must not stop the next start."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from devstack.postgres import Home, clear_stale_lock, part
from devstack.process import identify


def test_the_lock_of_a_process_that_is_gone_is_removed(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    lock = tmp_path / "postmaster.pid"
    lock.write_text(f"{gone.pid}\n/data\n")
    clear_stale_lock(tmp_path)
    assert not lock.exists()


def test_the_lock_whose_pid_now_belongs_to_another_program_is_removed(tmp_path: Path) -> None:
    lock = tmp_path / "postmaster.pid"
    lock.write_text(f"{os.getpid()}\n")
    clear_stale_lock(tmp_path)
    assert not lock.exists()


def test_a_server_that_still_runs_on_the_folder_is_ended_first(tmp_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)", str(tmp_path)],
        start_new_session=True,
        stdout=subprocess.PIPE,
        # A test run in the background of a shell inherits a SIGINT that is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    # Interrupted while it still starts, an interpreter ends with 1 instead of by the signal.
    assert server.stdout is not None
    assert server.stdout.readline() == b"up\n"
    (tmp_path / "postmaster.pid").write_text(f"{server.pid}\n")
    clear_stale_lock(tmp_path)
    assert identify(server.pid) is None
    with server.stdout:
        assert server.wait() in (-signal.SIGINT, -signal.SIGKILL)


def test_no_lock_and_an_empty_lock_are_fine(tmp_path: Path) -> None:
    clear_stale_lock(tmp_path)
    (tmp_path / "postmaster.pid").write_text("")
    clear_stale_lock(tmp_path)


def test_only_a_stack_whose_data_may_perish_writes_without_fsync(tmp_path: Path) -> None:
    home = Home(tmp_path, tmp_path, None)
    assert "--fsync=off" in part(home, 1, durable=False).argv
    assert not {"--fsync=off", "--full_page_writes=off"} & set(part(home, 1).argv)
    assert not [word for word in part(home, 1, durable=False).argv if word.startswith("--synchronous_commit")]
