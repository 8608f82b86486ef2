"""What every part of a run shares."""

from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from domain.budgets import Limits, limits_of
from domain.client_choice import ClientState, room_rank
from domain.dispatch_settings import DispatchSettings
from simulation.clock import Clock
from simulation.ledger import Ledger
from simulation.load import Load, Machine
from simulation.meters import Meters
from simulation.state import Attempt, Client, Request, Task, Tenant
from simulation.window import MINUTE

# Endings that count against a client (the view `available_desktops`).
ABORT_MEMORY = MINUTE


def _nobody(_: object) -> None:
    """Until the part that listens is there."""


@dataclass(slots=True)
class Context:
    """Clock, books and rules of one run. The three calls are how parts tell others, who are made after them."""

    load: Load
    machine: Machine
    settings: DispatchSettings
    ledger: Ledger
    clock: Clock = field(default_factory=Clock)
    meters: Meters = field(default_factory=Meters)
    tenants: list[Tenant] = field(default_factory=list)
    clients: dict[UUID, Client] = field(default_factory=dict)
    tasks: dict[int, Task] = field(default_factory=dict)
    # A tenant has work or room: its coordinator looks at it.
    wake: Callable[[Tenant], None] = _nobody
    # An attempt is over: its desktop, and whoever waits for the platform, may go on.
    freed: Callable[[Attempt], None] = _nobody
    # A task of the request has ended, or left it.
    settled: Callable[[Request], None] = _nobody
    # Slots of a client, and tasks that a platform takes at once.
    slots: int = 0
    platform_limit: int = 0

    def random(self, concern: str) -> Random:
        """A stream of its own for each concern, so that one more draw in one moves nothing in another."""
        return Random(f"{self.load.seed}:{concern}")

    def limits(self) -> Limits:
        """Every client's limits; the platform's is the round's."""
        return limits_of(self.settings, client_concurrency=None, client_queue_depth=None, platform=0)

    def __post_init__(self) -> None:
        self.slots = self.limits().client_concurrency
        self.platform_limit = min(self.settings.platform_concurrency, self.settings.fuses.platform_concurrency)

    def publish(self, client: Client) -> None:
        """Write what the rules read of a client, and where it now ranks; nothing while it is not online."""
        tenant = client.tenant
        if client.rank is not None:
            del tenant.ranked[bisect_left(tenant.ranked, (client.rank,))]
            client.rank = None
        if not client.online:
            tenant.states.pop(client.id, None)
            return
        queued = client.queued()
        state = tenant.states[client.id] = ClientState(
            client_id=client.id,
            tenant_id=tenant.id,
            workspace_id=tenant.id,
            # What did not stop in time holds no slot, but its desktop is not idle either.
            free_slots=self.slots - (len(client.held) - queued),
            abort_rate=self._abort_rate(client),
            platform_sessions=client.sessions,
        )
        client.rank = room_rank(state, queued)
        insort(tenant.ranked, (client.rank, client))

    def _abort_rate(self, client: Client) -> float:
        endings = client.endings
        while endings and endings[0][0] + ABORT_MEMORY <= self.clock.now:
            endings.popleft()
        if not endings:
            return 0.0
        # An abort is forgotten after a minute, and nothing else may happen to the client by then.
        if any(aborted for _, aborted in endings):
            self.clock.at(endings[0][0] + ABORT_MEMORY, self.publish, client)
        return sum(aborted for _, aborted in endings) / len(endings)
