"""Between the socket and the scheduler: builds the frames that say what is held here, and passes on what comes."""

from collections.abc import Callable
from typing import assert_never

from desktop.board import Board
from desktop.config import DesktopConfig
from desktop.events import EventKind, Moment, Reporter
from desktop.posting import Poster
from desktop.proxying import Proxies
from desktop.scheduler import Scheduler
from domain.ids import new_uuid
from domain.protocol import (
    AnyServerFrame,
    ErrorFrame,
    Feature,
    Heartbeat,
    HeldAttempt,
    Hello,
    ProxyRequest,
    ServerAck,
    Snapshot,
    Sync,
    TaskAvailable,
    TaskControl,
)


class DesktopLink:
    """The desktop as its connection sees it."""

    def __init__(
        self,
        config: DesktopConfig,
        scheduler: Scheduler,
        poster: Poster,
        reporter: Reporter,
        healthy: Callable[[], bool] = lambda: True,
        proxies: Proxies | None = None,
    ) -> None:
        self._config = config
        self._scheduler = scheduler
        self._poster = poster
        self._reporter = reporter
        self._healthy = healthy
        self._proxies = proxies

    @property
    def _board(self) -> Board:
        return self._scheduler.board

    def hello(self) -> Hello:
        """Who we are and what we hold, results that wait included."""
        return Hello(
            id=str(new_uuid()),
            version=self._config.version,
            max_concurrent=self._config.max_concurrent,
            highest_generation=self._board.highest_generation,
            held=self._held(),
            platform_sessions=dict(self._config.driver.sessions()),
            features=[] if self._proxies is None else [Feature.PROXY],
        )

    def sync(self) -> Sync:
        """Asks for what we should know besides this."""
        return Sync(id=str(new_uuid()), highest_generation=self._board.highest_generation, held=self._held())

    def heartbeat(self) -> Heartbeat:
        """What runs with its phase, what waits; every lease named is extended."""
        running, queued = self._board.held()
        return Heartbeat(
            id=str(new_uuid()),
            running=self._with_results(running),
            queued=queued,
            platform_sessions=dict(self._config.driver.sessions()),
            healthy=self._healthy(),
        )

    def idle(self) -> bool:
        """Nothing waits or runs here."""
        return self._board.idle

    def heartbeat_taken(self, heartbeat: Heartbeat) -> None:
        """The hub has folded it in: the leases it named run on."""
        self._scheduler.extended(frozenset(held.attempt_id for held in [*heartbeat.running, *heartbeat.queued]))

    def received(self, frame: AnyServerFrame, at: Moment) -> None:
        """A frame of the hub, with the moment it was read."""
        match frame:
            case TaskAvailable():
                self._reporter.task(EventKind.FRAME_RECEIVED, frame, at=at, frame="task_available")
                self._scheduler.offered([frame], at.monotonic)
            case TaskControl():
                self._ordered(frame, at)
            case Snapshot():
                self._snapshot(frame, at)
            case ProxyRequest():
                self._asked(frame)
            case ServerAck() | ErrorFrame():
                return
            case other:
                assert_never(other)

    def replied(self, ref: str | None, code: str | None) -> None:
        """The hub's reply to a frame that is no heartbeat: its error code, or None."""
        if self._proxies is not None:
            self._proxies.replied(ref, code)

    def _asked(self, request: ProxyRequest) -> None:
        # It comes only to who names the feature in hello.
        if self._proxies is not None:
            self._proxies.asked(request)

    def _ordered(self, control: TaskControl, at: Moment) -> None:
        self._reporter.emit(
            EventKind.FRAME_RECEIVED,
            at,
            task_id=control.task_id,
            frame="task_control",
            control=control.control,
            generation=control.interrupt_generation,
        )
        self._scheduler.ordered(control)

    def _snapshot(self, page: Snapshot, at: Moment) -> None:
        self._reporter.emit(EventKind.FRAME_RECEIVED, at, frame="snapshot", generation=page.generation)
        for frame in page.available:
            self._reporter.task(EventKind.FRAME_RECEIVED, frame, at=at, frame="snapshot")
        self._scheduler.reported(page.held)
        self._scheduler.offered(page.available, at.monotonic)
        for control in page.controls:
            self._ordered(control, at)
        for request in page.proxies:
            self._asked(request)

    def _held(self) -> list[HeldAttempt]:
        running, queued = self._board.held()
        return [*self._with_results(running), *queued]

    def _with_results(self, running: list[HeldAttempt]) -> list[HeldAttempt]:
        known = {held.attempt_id for held in running}
        return [*running, *(held for held in self._poster.held() if held.attempt_id not in known)]
