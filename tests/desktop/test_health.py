"""A desktop whose disk or driver does not work says so, and takes it back when it works again (2-desktop §2.4)."""

import asyncio
from pathlib import Path
from random import Random
from typing import cast

import pytest

from desktop.backoff import Backoff
from desktop.config import Timings
from desktop.driver import Answer, DriverFailure, RunContext, well
from desktop.events import EventKind, Reporter
from desktop.health import FAULTS, RECHECK, Health
from desktop.posting import Posted, Poster
from desktop.rest import Reason, Refused, RestClient
from desktop.results import KeptResult, ResultStore, succeeded
from domain.desktop_calls import ResultAnswer, ResultCall
from domain.phases import Phase
from domain.protocol import Heartbeat, TaskAvailable
from tests.desktop.conftest import OpenDesk
from tests.desktop.frames import available
from tests.desktop.hub import Hub
from tests.desktop.stepdriver import StepDriver
from tests.desktop.waiting import Record, Signal
from tests.support.small_disk import small_disk


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_driver_that_fails_time_after_time_is_ill_until_it_answers_or_a_while_has_passed() -> None:
    clock = Clock()
    health = Health(lambda: True, clock=clock)
    for _ in range(FAULTS - 1):
        health.failed()
    assert health.healthy()
    health.failed()
    assert not health.healthy()
    clock.now = RECHECK
    assert health.healthy()
    health.failed()
    assert not health.healthy()
    health.worked()
    assert health.healthy()


def test_an_answer_in_between_starts_the_count_anew() -> None:
    health = Health(lambda: True)
    for _ in range(FAULTS * 2):
        health.failed()
        health.worked()
    assert health.healthy()


def test_a_driver_may_speak_for_itself() -> None:
    class Ill(StepDriver):
        def healthy(self) -> bool:
            return False

    assert well(StepDriver())
    assert not well(Ill())


class Broken(StepDriver):
    """Fails as a bug would, or in a way that it foresees."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def run_phase(self, phase: Phase, task: TaskAvailable, context: RunContext) -> None:
        raise self.error


@pytest.mark.parametrize(("error", "healthy"), [(RuntimeError("bug"), False), (DriverFailure("no_answer"), True)])
async def test_heartbeats_say_that_the_driver_is_broken(
    hub: Hub, open_desk: OpenDesk, error: Exception, healthy: bool
) -> None:
    await open_desk(driver=Broken(error), timings=Timings(heartbeat=0.02))
    await hub.push(*(available() for _ in range(FAULTS)))
    await hub.until(lambda: len(hub.results) == FAULTS)
    seen = len(hub.of(Heartbeat))
    await hub.until(lambda: len(hub.of(Heartbeat)) > seen + 2)
    assert hub.of(Heartbeat)[-1].healthy is healthy


class Results:
    """The server's side of a poster: takes what comes, or is away."""

    def __init__(self) -> None:
        self.away = True

    async def result(self, task_id: str, call: ResultCall) -> ResultAnswer | Refused:
        return Refused(Reason.UNAVAILABLE) if self.away else ResultAnswer(task_id=task_id, attempt_id=call.attempt_id)


class Watched(ResultStore):
    """Tells when it has kept a result."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.signal = Signal()
        self.saved = 0

    async def save(self, result: KeptResult) -> None:
        await super().save(result)
        self.saved += 1
        self.signal.changed()


def poster_on(store: ResultStore, results: Results, record: Record | None = None) -> Poster:
    rest = cast(RestClient, results)
    return Poster(store, rest, Reporter("c", record), Backoff(60.0, 60.0, 60.0), Random(1), disk_again=0.01)


async def test_a_result_that_the_disk_refused_is_kept_as_soon_as_it_takes_it(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "results"
    store = Watched(folder)
    poster = poster_on(store, Results())
    # A file stands where the folder should be: every write fails.
    folder.write_text("")
    assert await poster.submit(succeeded(available(), Answer("{}"), {})) is Posted.KEPT
    assert not poster.keeps_results()
    resending = asyncio.create_task(poster.run())
    folder.unlink()
    await store.signal.until(lambda: poster.keeps_results() and store.saved == 1)
    resending.cancel()
    assert [path.suffix for path in folder.iterdir()] == [".json"]


async def test_a_disk_that_lets_nothing_be_removed_does_not_stop_the_desktop(tmp_path: Path) -> None:
    record, results, kept = Record(), Results(), succeeded(available(), Answer("{}"), {})
    results.away = False
    with small_disk(tmp_path / "disk") as disk:
        store = ResultStore(disk.folder / "results", least_room=0)
        await store.save(kept)
        disk.read_only()
        poster = poster_on(store, results, record)
        await poster.load()
        resending = asyncio.create_task(poster.run())
        await record.seen(EventKind.RESULT_ACCEPTED)
        assert poster.held() == []
        assert not poster.keeps_results()
        assert not resending.done()
        resending.cancel()
        disk.read_only(False)


async def test_a_full_disk_is_no_place_for_results(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        poster = poster_on(ResultStore(disk.folder / "results", least_room=32_000), Results())
        assert poster.keeps_results()
        disk.fill()
        assert not poster.keeps_results()
        disk.empty()
        assert poster.keeps_results()
