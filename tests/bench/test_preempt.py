"""The preemption benchmark in small: the same clicks for everybody, peers that interrupt nothing, honest verdicts."""

import asyncio
from typing import Any

import orjson
import pytest

from bench.database import own_database
from bench.peers import preempt_procrastinate, preempt_temporal
from bench.peers.clicks import CLICKS_A_DESK, Options, Slots, measure_clicks
from bench.preempt import SHARES, SteppedDriver, verdict
from desktop.driver import RunContext
from domain.lanes import Lane
from domain.phases import PAUSE_POINT_IN, Phase
from tests.conftest import Servers
from tests.desktop.frames import available

SMALL = Options(clicks=2, task_seconds=0.6, step_seconds=0.1)


class TakesItsTime:
    """A desk that starts a click after so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._slots = Slots()
        self._seconds = seconds
        self.clicks = 0

    async def busy(self) -> None:
        """It always is."""

    async def click(self) -> float:
        self.clicks += 1
        asyncio.get_running_loop().call_later(self._seconds, lambda: asyncio.ensure_future(self._begin()))
        return await self._slots.started()

    async def _begin(self) -> None:
        await self._slots.begin_clicked()


async def test_every_desk_is_clicked_on_equally_and_its_wait_is_what_is_measured() -> None:
    desks = [TakesItsTime(0.0), TakesItsTime(0.2)]
    figures = await measure_clicks(desks, Options(clicks=4, task_seconds=0.01))
    assert [desk.clicks for desk in desks] == [CLICKS_A_DESK, CLICKS_A_DESK]
    assert len(figures) == 2 * CLICKS_A_DESK
    # The loop's clock may ring a timer a tick early.
    assert min(figures[CLICKS_A_DESK:]) >= 199


def shape(peer: dict[str, Any]) -> None:
    assert peer["interrupts"] is False
    assert peer["click_to_started_ms"]["n"] == SMALL.clicks
    assert peer["version"]
    assert "priority" in peer["configured"]
    assert orjson.loads(orjson.dumps(peer)) == peer


async def test_procrastinate_serves_the_click_before_its_backlog(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", servers.database_url)
    async with own_database(lambda _: None) as url:
        shape(await preempt_procrastinate.measure(url, SMALL))


async def test_temporal_serves_the_click_before_its_backlog() -> None:
    shape(await preempt_temporal.measure(SMALL))


async def test_our_scheduled_tasks_pause_within_every_long_phase_and_the_clicked_one_ends_at_once() -> None:
    driver = SteppedDriver(Options(task_seconds=1.0, step_seconds=0.1))
    for phase in (phase for phase in SHARES if phase not in PAUSE_POINT_IN):
        assert driver.durations("a task")[phase] <= 0.1
    context = RunContext()
    assert await driver.run_phase(Phase.INPUTTING, available(lane=Lane.NORMAL), context) is True
    assert await driver.run_phase(Phase.INPUTTING, available(lane=Lane.HIGH), RunContext()) is False


def test_the_verdict_asks_every_click() -> None:
    intervals = [1000.0] * 100
    assert verdict([700.0, 1499.0], intervals).met
    assert not verdict([700.0, 1501.0], intervals).met
    assert verdict([700.0, 1501.0], intervals).within == 1
