"""Clients that break one rule each: the reference desktop with one part changed."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import connect

from desktop import board, connection, execution, reconnect, session
from desktop.board import Board
from desktop.config import DesktopConfig
from desktop.effects import Begin, Effect, Ending, EndKind
from desktop.execution import Execution
from desktop.link import DesktopLink
from desktop.local_task import LocalTask
from desktop.posting import Posted, Poster
from desktop.rest import Refused
from domain.phases import Phase, SafePoint
from domain.protocol import ClientAck, Control, TaskAvailable
from tests.desktop.conformance.client_rig import QUICK, InProcess

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


@dataclass(frozen=True, slots=True)
class Broken:
    """Which scenario must notice what is done to the client."""

    check: str
    how: str
    break_it: Break
    change: Callable[[InProcess], InProcess] = lambda client: client


def attribute(target: object, name: str, value: object) -> Break:
    """A client with another value there."""

    def break_it(patch: Patch) -> None:
        patch.setattr(target, name, value)

    return break_it


def around(target: object, name: str, wrapper: Callable[..., Any]) -> Break:
    """A client whose method is called by way of `wrapper(original, self, …)`."""

    def break_it(patch: Patch) -> None:
        original = getattr(target, name)
        patch.setattr(target, name, lambda *args, **named: wrapper(original, *args, **named))

    return break_it


def nothing(_patch: Patch) -> None:
    """Only what the client is told differs."""


def timings(**changes: Any) -> Callable[[InProcess], InProcess]:
    """Other waiting times."""
    return lambda client: replace(client, timings=replace(QUICK, **changes))


# --- greeting -----------------------------------------------------------------------------------------------------


def with_a_token_in_the_url(client: InProcess) -> InProcess:
    def make(config: DesktopConfig) -> Any:
        return client.make(replace(config, ws_url=f"{config.ws_url}?token={config.token}"))

    return replace(client, make=make)


def on_another_path(client: InProcess) -> InProcess:
    return replace(client, make=lambda config: client.make(replace(config, ws_url=f"{config.ws_url}/v2")))


def without_a_version(_open: Any, self: Any) -> connect:
    return connect(self._config.ws_url, additional_headers={"Authorization": f"Bearer {self._config.token}"})


async def slow_to_greet(run: Any, self: Any) -> None:
    await asyncio.sleep(0.4)
    await run(self)


def leaves_at_an_error(_original: Any, self: Any, _error: Any) -> None:
    self._socket.transport.abort()


def reads_the_first_page_only(original: Any, self: Any, page: Any, at: Any) -> None:
    if page.page == 0:
        original(self, page, at)


async def trips_over_the_unknown(original: Any, self: Any, text: Any, at: Any) -> None:
    if b"of_tomorrow" in text:
        self._socket.transport.abort()
    await original(self, text, at)


def names_no_frame(**fields: Any) -> ClientAck:
    return ClientAck(id=fields["id"], ref="no such frame")


# --- tasks --------------------------------------------------------------------------------------------------------


async def runs_without_start(_start: Any, _self: Any) -> None:
    return None


async def does_not_wait_for_start(start: Any, self: Any) -> None:
    self._starting = asyncio.ensure_future(start(self))


def begins_again(original: Any, self: Board, frame: TaskAvailable, now: float) -> list[Effect]:
    known = frame.attempt_id in self._tasks or frame.attempt_id in self._ended
    again = LocalTask(frame, now, now + 120, frame.interrupt_generation)
    return [Begin(again)] if known else original(self, frame, now)  # type: ignore[no-any-return]


def forgets_without_a_slot(_original: Any, self: Board, task: LocalTask, _now: float) -> list[Effect]:
    return self._lose(task, "no_slot")


async def gives_a_result_up(_post: Any, self: Poster, waiting: Any) -> Posted:
    await self._rest.result(waiting.result.task_id, waiting.result.call)
    return await self._done(waiting.result, Posted.DISCARDED)


def does_not_wait_as_asked(original: Any, self: Poster, waiting: Any, refused: Refused) -> Posted:
    return original(self, waiting, replace(refused, retry_after=None))  # type: ignore[no-any-return]


async def starts_a_lost_one_again(start: Any, self: Execution) -> Ending | None:
    ending = await start(self)
    return Ending(EndKind.NO_SLOT, "again") if ending is not None else None


async def keeps_a_refused_result(post: Any, self: Poster, waiting: Any) -> Posted:
    answer = await self._rest.result(waiting.result.task_id, waiting.result.call)
    if isinstance(answer, Refused):
        return self._keep(waiting, answer)
    return await self._done(waiting.result, Posted.ACCEPTED)


def by_arrival(task: LocalTask) -> Any:
    return (task.available_at, task.frame.task_id)


# --- orders -------------------------------------------------------------------------------------------------------


def never_stops(original: Any, self: Board, attempt_id: str, phase: Phase, _point: Any) -> Any:
    return original(self, attempt_id, phase, None)


def stops_while_it_waits(_phase: Phase) -> SafePoint | None:
    return SafePoint.BEFORE_SUBMIT


def keeps_what_waits(original: Any, self: Board, task: LocalTask, control: Any) -> list[Effect]:
    if control.control is Control.INTERRUPT_REQUESTED and not task.running:
        return []
    return original(self, task, control)  # type: ignore[no-any-return]


def deaf_to(order: Control, original: Any, self: Board, task: LocalTask, control: Any) -> list[Effect]:
    return [] if control.control is order else original(self, task, control)


def follows_older_orders(original: Any, self: Board, control: Any) -> list[Effect]:
    task = self._of_task(control.task_id)
    if task is not None:
        task.last_seen_generation = 0
    return original(self, control)  # type: ignore[no-any-return]


async def takes_stale_for_settled(_original: Any, self: Execution, order: Any, point: SafePoint) -> Ending:
    call = execution.InterruptAckCall(
        lease_token=self._task.lease_token, interrupt_generation=order.generation, safe_point=point
    )
    await self._tools.rest.interrupt_ack(self._task.task_id, call)
    return Ending(EndKind.GAVE_WAY, "settled", point)


async def acknowledges_an_older_one(give_way: Any, self: Execution, order: Any, point: SafePoint) -> Any:
    return await give_way(self, replace(order, generation=order.generation - 1), point)


# --- connections --------------------------------------------------------------------------------------------------


def changed(**fields: Any) -> Callable[..., Any]:
    """A frame with other fields."""
    return lambda original, self: msgspec.structs.replace(original(self), **fields)


def blind_to_orders(original: Any, self: DesktopLink, page: Any, at: Any) -> None:
    original(self, msgspec.structs.replace(page, controls=[]), at)


FINAL = "FINAL_CODES"
ONE_ID = attribute(session, "new_uuid", lambda: "01980a71-0000-7000-8000-000000000000")

BROKEN_CLIENTS = (
    Broken("connect.handshake", "puts its token into the URL", nothing, with_a_token_in_the_url),
    Broken("connect.handshake", "connects to another path", nothing, on_another_path),
    Broken("connect.handshake", "offers no version", around(connection.Connection, "_open", without_a_version)),
    Broken("connect.hello", "says hello late", around(session.Session, "run", slow_to_greet)),
    Broken("snapshot.late", "leaves at an error frame", around(session.Session, "_refused", leaves_at_an_error)),
    Broken("snapshot.pages", "reads one page", around(DesktopLink, "_snapshot", reads_the_first_page_only)),
    Broken("frames.unknown", "trips over new fields", around(session.Session, "_take", trips_over_the_unknown)),
    Broken("frames.receipts", "acknowledges anything", attribute(session, "ClientAck", names_no_frame)),
    Broken("frames.rules", "uses an id twice", ONE_ID),
    Broken("heartbeat.cadence", "does not beat", nothing, timings(heartbeat=1000.0)),
    Broken("heartbeat.lists", "hides what waits", around(DesktopLink, "heartbeat", changed(queued=[]))),
    Broken("task.result", "never starts", around(Execution, "_start", runs_without_start)),
    Broken("task.start_first", "does not wait for start", around(Execution, "_start", does_not_wait_for_start)),
    Broken("task.duplicate_push", "runs it twice", around(Board, "offer", begins_again)),
    Broken("task.no_slot", "forgets it", around(Board, "_requeue", forgets_without_a_slot)),
    Broken("task.local_order", "goes by arrival", attribute(board, "order_key", by_arrival)),
    Broken("result.unavailable", "gives up", around(Poster, "_post", gives_a_result_up)),
    Broken("result.unavailable", "comes too soon", around(Poster, "_keep", does_not_wait_as_asked)),
    Broken("result.reconnect", "does not list it", around(Poster, "held", lambda _original, _self: [])),
    Broken("lease.lost_at_start", "tries again", around(Execution, "_start", starts_a_lost_one_again)),
    Broken("lease.lost_at_result", "sends it again", around(Poster, "_post", keeps_a_refused_result)),
    Broken("legacy.offers", "pulls and forgets", around(Board, "pulled", lambda *_: [])),
    Broken("order.gives_way", "runs on", around(Board, "pass_into", never_stops)),
    Broken("order.gives_way", "names another order", around(Execution, "_give_way", acknowledges_an_older_one)),
    Broken(
        "order.safe_points",
        "stops while it waits for the answer",
        attribute(execution, "pause_point_in", stops_while_it_waits),
        lambda client: replace(client, step=0.2),
    ),
    Broken("order.high_first", "goes by arrival", attribute(board, "order_key", by_arrival)),
    Broken("order.queued", "keeps it", around(Board, "_obey", keeps_what_waits)),
    Broken("order.withdrawn", "gives way", around(Board, "_obey", partial(deaf_to, Control.INTERRUPT_WITHDRAWN))),
    Broken("order.older", "follows it", around(Board, "order", follows_older_orders)),
    Broken("order.unheld", "says nothing", around(Board, "_order_for_unheld", lambda *_: [])),
    Broken("order.stale", "takes it for settled", around(Execution, "_give_way", takes_stale_for_settled)),
    Broken("order.canceled_queued", "runs it", around(Board, "_obey", partial(deaf_to, Control.CANCELED))),
    Broken("order.canceled_running", "runs on", around(Board, "_obey", partial(deaf_to, Control.CANCELED))),
    Broken("reconnect.restart", "does not come back", attribute(connection, FINAL, range(1000, 5000))),
    Broken("reconnect.slow", "does not come back", attribute(connection, FINAL, range(4400, 5000))),
    Broken("reconnect.jitter", "comes after the same time", around(reconnect.Reconnect, "delay", lambda *_: 0.3)),
    Broken("reconnect.jitter", "comes at once", around(reconnect.Reconnect, "delay", lambda *_: 0.0)),
    Broken("reconnect.held", "lists nothing", around(DesktopLink, "hello", changed(held=[]))),
    Broken("reconnect.held", "forgets generations", around(DesktopLink, "hello", changed(highest_generation=0))),
    Broken("snapshot.invalid", "runs it", around(Board, "reported", lambda *_: [])),
    Broken("snapshot.orders", "does not see them", around(DesktopLink, "_snapshot", blind_to_orders)),
    Broken("final.4508", "comes back", attribute(connection, FINAL, range(0))),
    Broken("final.4509", "comes back", attribute(connection, FINAL, range(0))),
    Broken("final.4501", "comes back", attribute(connection, FINAL, range(0))),
)
