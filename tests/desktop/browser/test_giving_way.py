"""A whole desktop with the browser driver gives way where nothing is half done, and nowhere else (2-desktop §2.3)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from desktop.config import DesktopConfig
from desktop.driver import RunContext
from desktop.events import EventKind
from domain.phases import Phase, SafePoint
from domain.protocol import TaskAvailable
from tests.desktop.browser.conftest import OpenDesk
from tests.desktop.browser.practice import PATIENCE, Desk, task, until
from tests.desktop.conftest import QUICK, QUICK_CALLS
from tests.desktop.desk import Desk as RunningDesk
from tests.desktop.frames import interrupt
from tests.desktop.hub import TOKEN, Hub, running_hub

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("chromium")]

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


async def test_in_a_human_check_that_comes_while_it_types_it_does_not_stop(open_desk: OpenDesk) -> None:
    desk = open_desk({"human_check": "typing"}, SLOWLY)
    async with running(desk) as (hub, client):
        frame = task(LONG)
        await hub.push(frame)
        await desk.health("human_check")
        await hub.order(interrupt(frame.task_id, 7))
        await client.record.seen(EventKind.ORDER_TAKEN, frame.task_id)
        desk.behave(human=True)
        gave_way = await client.record.seen(EventKind.GAVE_WAY, frame.task_id)
        assert gave_way.phase is Phase.INPUTTING
        assert desk.driver.sessions() == {"practice": "healthy"}
        assert desk.session.questions == []


async def test_in_a_login_redirect_that_is_under_way_no_safe_point_is_one(open_desk: OpenDesk) -> None:
    desk = open_desk({"login": True, "login_page": "hang"}, step=0.01)
    frame, context = task(), RunContext()
    await desk.run((Phase.PREPARING,), frame, context)
    async with asyncio.timeout(PATIENCE):
        while not context.unsafe:
            assert await desk.driver.run_phase(Phase.NAVIGATING, frame, context)
    # The browser still shows nothing: only the network knows that it is being sent on.
    assert context.resources.eye.page.url == "about:blank"
    await desk.driver.release(frame, context)


async def test_a_login_page_that_has_come_is_left_by_its_own_phase_alone(open_desk: OpenDesk) -> None:
    desk = open_desk({"login": True})
    frame, context = task(), RunContext()
    await desk.run((Phase.PREPARING, Phase.NAVIGATING), frame, context)
    assert context.unsafe
    desk.behave(login=False)
    await desk.run((Phase.AUTHENTICATING,), frame, context)
    assert not context.unsafe
    await desk.driver.release(frame, context)


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
