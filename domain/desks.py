"""Desktops during one round: what each holds, and which is the best for the next task (1-dispatch §1.4 rule 6)."""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from uuid import UUID

from domain.budgets import Limits
from domain.client_choice import ClientState, room_rank
from domain.round_state import Candidate, Live, Reason, RoundState


class Desk:
    """One desktop and its load, this round's picks included."""

    __slots__ = ("client", "client_id", "has_high", "limits_on", "queued", "rank", "running", "yielding")

    def __init__(self, client: ClientState, limits_on: dict[str, Limits]) -> None:
        self.client = client
        self.client_id = client.client_id
        # Its limits by platform, made as they are asked for; desktops with equal limits share them.
        self.limits_on = limits_on
        self.running = 0
        self.queued = 0
        self.has_high = False
        # Running tasks that were asked to stop, by the request they stop for and the platform; and None for any.
        self.yielding: dict[tuple[UUID, str | None], int] = {}
        self.rank = room_rank(client, 0)

    def hold(self, live: Live) -> None:
        """Count a task that is there already."""
        self.running += live.running
        self.queued += live.queued
        if live.running and live.interrupted_for is not None:
            for key in ((live.interrupted_for, None), (live.interrupted_for, live.platform)):
                self.yielding[key] = self.yielding.get(key, 0) + 1
        self.rank = room_rank(self.client, self.queued)

    def take(self) -> None:
        """Count a pick."""
        self.queued += 1
        self.rank = room_rank(self.client, self.queued)

    def yields_to(self, task: Candidate, platform: str | None = None) -> int:
        """Slots (of one platform) that are free for this task alone, because its own request interrupts them."""
        if not self.yielding or task.request_id is None:
            return 0
        return self.yielding.get((task.request_id, platform), 0)


def _rank(desk: Desk) -> tuple[float, ...]:
    return desk.rank


class Fleet:
    """The desktops of one workspace. Scheduled work meets them in order of rank, those open to it only.

    During a round load only grows, so a desktop that is closed to scheduled work stays closed.
    """

    def __init__(self, desks: Iterable[Desk]) -> None:
        self.desks = {desk.client_id: desk for desk in desks}
        self.closed: list[tuple[Desk, Reason]] = []
        # What stopped unbound scheduled work on a platform: it stops all that comes after it as well.
        self.stuck: dict[str, Reason] = {}
        self._open: list[Desk] | None = None

    @property
    def open(self) -> list[Desk]:
        """Desktops that may still take scheduled work, the best first."""
        if self._open is None:
            self._open = self.best_first()
        return self._open

    def best_first(self) -> list[Desk]:
        """All desktops, the best for the next task first."""
        return sorted(self.desks.values(), key=_rank)

    def close(self, closing: Sequence[tuple[Desk, Reason]]) -> None:
        """No scheduled work goes to these any more, for this reason."""
        for desk, _ in closing:
            self.open.remove(desk)
        self.closed += closing

    def closed_on(self, platform: str) -> list[Reason]:
        """Why those closed that could have served the platform are."""
        return [reason for desk, reason in self.closed if desk.client.logged_in(platform)]

    def take(self, desk: Desk) -> None:
        """Count a pick on the desktop, and put it where it now belongs."""
        if self._open is None or desk not in self._open:
            desk.take()
            return
        self._open.remove(desk)
        desk.take()
        insort(self._open, desk, key=_rank)


class Fleets:
    """All desktops of a round. A workspace's are counted when it is first asked for: a click concerns one workspace."""

    def __init__(self, state: RoundState, with_high: frozenset[UUID]) -> None:
        """`with_high`: clients with unfinished high work."""
        self._state = state
        self._with_high = with_high
        self._clients: defaultdict[tuple[int, int], list[ClientState]] = defaultdict(list)
        for client in state.clients.values():
            self._clients[client.tenant_id, client.workspace_id].append(client)
        self._live: defaultdict[UUID, list[Live]] = defaultdict(list)
        for live in state.live:
            self._live[live.client_id].append(live)
        self._fleets: dict[tuple[int, int], Fleet] = {}
        self._limits: dict[Limits, dict[str, Limits]] = {}

    def of(self, task: Candidate) -> Fleet:
        """The desktops of the task's workspace."""
        workspace = (task.tenant_id, task.workspace_id)
        fleet = self._fleets.get(workspace)
        if fleet is None:
            fleet = self._fleets[workspace] = Fleet(map(self._desk, self._clients.get(workspace, ())))
        return fleet

    def _desk(self, client: ClientState) -> Desk:
        desk = Desk(client, self._limits.setdefault(self._state.limits[client.client_id], {}))
        for live in self._live.get(client.client_id, ()):
            desk.hold(live)
        desk.has_high = client.client_id in self._with_high
        return desk
