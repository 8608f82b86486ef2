"""The supervisor's promises, on toy processes."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from devstack.errors import PartFailed, PartTimeout, PartUnknown
from devstack.part import Part, PartState
from devstack.process import identify
from devstack.supervisor import Supervisor

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"


@pytest_asyncio.fixture
async def supervisor(tmp_path: Path) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(tmp_path)
    supervisor.clean_up()
    yield supervisor
    await supervisor.stop_all()


def toy(code: str, name: str = "toy", **settings: object) -> Part:
    argv = (sys.executable, "-c", code)
    return Part(name=name, argv=argv, env={"PATH": os.environ["PATH"]}, **settings)  # type: ignore[arg-type]


async def until(condition: Callable[[], bool], limit: float = 10.0) -> None:
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        await asyncio.sleep(0.02)


async def test_a_part_that_dies_is_restarted_and_the_restart_is_counted(supervisor: Supervisor) -> None:
    await supervisor.start(toy(SLEEPER))
    first = supervisor.pid("toy")
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await until(lambda: supervisor.pid("toy") not in (None, first))
    await until(lambda: supervisor.status()[0].state is PartState.RUNNING)
    assert supervisor.status()[0].restarts == 1


async def test_a_stopped_part_stays_stopped_until_it_is_restarted(supervisor: Supervisor) -> None:
    await supervisor.start(toy(SLEEPER))
    await supervisor.stop("toy")
    assert supervisor.pid("toy") is None
    assert supervisor.status()[0].state is PartState.STOPPED
    await supervisor.restart("toy")
    assert supervisor.pid("toy") is not None
    assert supervisor.status()[0].restarts == 0


async def test_a_stop_leaves_no_process_of_the_group_behind(supervisor: Supervisor, tmp_path: Path) -> None:
    note = tmp_path / "child"
    code = (
        "import pathlib, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid))\n"
        "time.sleep(600)"
    )

    async def has_child() -> bool:
        return note.exists() and note.read_text() != ""

    await supervisor.start(toy(code, ready=has_child))
    child = int(note.read_text())
    await supervisor.stop_all()
    await until(lambda: identify(child) is None)


async def test_a_part_that_ignores_its_stop_signal_is_killed_after_its_grace(supervisor: Supervisor) -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    part = toy(deaf, grace=0.3)
    await supervisor.start(part)
    pid = supervisor.pid("toy")
    assert pid is not None
    log = supervisor.status()[0].log
    await until(lambda: "up" in log.read_text())
    await supervisor.stop("toy")
    assert identify(pid) is None


async def test_parts_stop_in_reverse_order(supervisor: Supervisor, tmp_path: Path) -> None:
    order = tmp_path / "order"
    code = (
        "import signal, sys, time\n"
        f"end = lambda *_: (open({str(order)!r}, 'a').write(sys.argv[1]), sys.exit())\n"
        "signal.signal(signal.SIGTERM, end); print('up', flush=True); time.sleep(600)"
    )
    for name in ("a", "b"):
        part = Part(name=name, argv=(sys.executable, "-c", code, name))
        await supervisor.start(part)
    for status in supervisor.status():
        await until(lambda log=status.log: "up" in log.read_text())  # type: ignore[misc]
    await supervisor.stop_all()
    assert order.read_text() == "ba"


async def test_a_part_that_cannot_start_shows_the_end_of_its_log(supervisor: Supervisor) -> None:
    async def never() -> bool:
        return False

    with pytest.raises(PartFailed, match="exit code 3") as failure:
        await supervisor.start(toy("import sys; print('no such table'); sys.exit(3)", ready=never))
    assert "no such table" in failure.value.fix
    assert failure.value.code == "part_failed"
    assert supervisor.status()[0].state is PartState.FAILED


async def test_a_part_that_is_never_ready_is_ended_and_shows_the_end_of_its_log(supervisor: Supervisor) -> None:
    async def never() -> bool:
        return False

    with pytest.raises(PartTimeout, match=r"not ready within 0\.5 s") as failure:
        await supervisor.start(toy(SLEEPER, ready=never, start_limit=0.5))
    assert "up" in failure.value.fix
    assert supervisor.pid("toy") is None


async def test_a_one_shot_runs_to_its_end_and_is_not_restarted(supervisor: Supervisor) -> None:
    await supervisor.start(toy("print('migrated')", one_shot=True))
    assert supervisor.status()[0].state is PartState.DONE
    with pytest.raises(PartFailed):
        await supervisor.start(toy("raise SystemExit('lock timeout')", one_shot=True))


async def test_what_a_killed_supervisor_left_is_ended_by_the_next(supervisor: Supervisor, tmp_path: Path) -> None:
    await supervisor.start(toy(SLEEPER))
    left = supervisor.pid("toy")
    assert left is not None
    ended = await asyncio.to_thread(Supervisor(tmp_path).clean_up)
    assert ended == ["toy"]
    await until(lambda: supervisor.pid("toy") != left)


async def test_the_death_of_the_supervisor_ends_its_parts(tmp_path: Path) -> None:
    code = f"""
import asyncio, os, signal, sys
from pathlib import Path
from devstack.part import Part
from devstack.supervisor import Supervisor
async def main():
    supervisor = Supervisor(Path({str(tmp_path)!r}))
    supervisor.clean_up()
    await supervisor.start(Part(name="toy", argv=("sleep", "600")))
    print(supervisor.pid("toy"), flush=True)
    await asyncio.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code), stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    output, _ = await parent.communicate()
    assert parent.returncode == -signal.SIGKILL
    await until(lambda: identify(int(output)) is None)


async def test_an_unknown_part_is_an_error_that_names_the_known_ones(supervisor: Supervisor) -> None:
    await supervisor.start(toy(SLEEPER))
    with pytest.raises(PartUnknown) as failure:
        supervisor.pid("database")
    assert failure.value.fix == "parts: toy"
