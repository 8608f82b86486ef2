"""A whole desktop with the browser driver gives way where nothing is half done, and nowhere else (2-desktop §2.3)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from desktop.config import DesktopConfig
from desktop.events import EventKind
from domain.phases import Phase, SafePoint
from domain.protocol import TaskAvailable
from tests.desktop.browser.conftest import OpenDesk
from tests.desktop.browser.practice import Desk, task, until
from tests.desktop.conftest import QUICK, QUICK_CALLS
from tests.desktop.desk import Desk as RunningDesk
from tests.desktop.frames import interrupt
from tests.desktop.hub import TOKEN, Hub, running_hub

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("chromium")]

# Takes longer to type than the phase may take: typed to its end it would fail.
LONG = "Which note app do small teams praise most? " * 40
SLOWLY = {"input": {"how": "type", "delay_ms": 20}, "timeouts": {"input": 25.0}, "new_conversation": []}


@asynccontextmanager
async def running(desk: Desk) -> AsyncIterator[tuple[Hub, RunningDesk]]:
    """The desktop, connected to a hub of the test's own."""
    async with running_hub() as hub:
        config = DesktopConfig(
            client_id="desk", token=TOKEN, ws_url=hub.ws_url, api_url=hub.api_url, state_dir=desk.home.parent,
            driver=desk.driver, timings=QUICK,
        )  # fmt: skip
        async with RunningDesk(config, QUICK_CALLS) as client:
            await client.connected()
            yield hub, client


async def interrupted_in(phase: Phase, frame: TaskAvailable, hub: Hub, client: RunningDesk) -> None:
    """The task has begun the phase, and the order to stop has arrived."""
    await hub.push(frame)
    await until(
        lambda: any(event.phase is phase for event in client.record.of(EventKind.PHASE_ENTERED, frame.task_id)),
        f"the task is in {phase}",
    )
    await hub.order(interrupt(frame.task_id, 7))
    await client.record.seen(EventKind.ORDER_TAKEN, frame.task_id)


async def test_it_stops_while_the_page_loads(open_desk: OpenDesk) -> None:
    desk = open_desk({"opening": "hang"}, step=0.02)
    async with running(desk) as (hub, client):
        frame = task()
        await interrupted_in(Phase.NAVIGATING, frame, hub, client)
        gave_way = await client.record.seen(EventKind.GAVE_WAY, frame.task_id)
        assert (gave_way.phase, gave_way.safe_point) == (Phase.NAVIGATING, SafePoint.BEFORE_INPUT)


async def test_it_stops_while_it_types_and_the_question_is_never_sent(open_desk: OpenDesk) -> None:
    desk = open_desk(None, SLOWLY)
    async with running(desk) as (hub, client):
        frame = task(LONG)
        await interrupted_in(Phase.INPUTTING, frame, hub, client)
        gave_way = await client.record.seen(EventKind.GAVE_WAY, frame.task_id)
        assert (gave_way.phase, gave_way.safe_point) == (Phase.INPUTTING, SafePoint.BEFORE_SUBMIT)
        assert desk.session.questions == []


async def test_between_sending_and_the_answer_it_does_not_stop(open_desk: OpenDesk) -> None:
    desk = open_desk({"word_ms": 20}, step=0.02)
    async with running(desk) as (hub, client):
        frame = task()
        await interrupted_in(Phase.WAITING, frame, hub, client)
        gave_way = await client.record.seen(EventKind.GAVE_WAY, frame.task_id)
        assert (gave_way.phase, gave_way.safe_point) == (Phase.WAITING, SafePoint.BEFORE_PARSE)
        assert desk.session.answered == 1


async def test_in_a_login_it_does_not_stop_and_the_next_heartbeat_tells_of_it(open_desk: OpenDesk) -> None:
    desk = open_desk({"login": True}, step=0.02)
    async with running(desk) as (hub, client):
        frame = task()
        await interrupted_in(Phase.AUTHENTICATING, frame, hub, client)
        await desk.health("login_required")
        assert hub.called("interrupt-ack") == []
        desk.behave(login=False)
        gave_way = await client.record.seen(EventKind.GAVE_WAY, frame.task_id)
        assert (gave_way.phase, gave_way.safe_point) == (Phase.AUTHENTICATING, SafePoint.BEFORE_INPUT)
        assert desk.session.questions == []
