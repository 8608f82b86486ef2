"""Which desktop gets a request or an unbound task (dispatch §10.6, 1-dispatch §1.3, §1.4 rule 6)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

HEALTHY: Final = "healthy"


@dataclass(frozen=True, slots=True)
class ClientState:
    """One online client as a decision sees it. `abort_rate`: share of last minute's attempts that were aborted."""

    client_id: UUID
    tenant_id: int
    workspace_id: int
    free_slots: int
    abort_rate: float = 0.0
    paused: bool = False
    platform_sessions: Mapping[str, str] = field(default_factory=dict)

    def logged_in(self, platform: str) -> bool:
        """Unknown counts as healthy: only a client that says otherwise is passed over."""
        return self.platform_sessions.get(platform, HEALTHY) == HEALTHY

    @property
    def logged_out(self) -> frozenset[str]:
        """Platforms whose login this client says is broken."""
        return frozenset(platform for platform in self.platform_sessions if not self.logged_in(platform))


def choose_for_request(
    clients: Iterable[ClientState], platforms: Collection[str], blocked: Mapping[str, Collection[UUID]]
) -> ClientState | None:
    """The desktop for a collect-now, or None when none may be chosen.

    `blocked`: platforms at their limit, with the clients whose running tasks hold them. Choosing such a client makes
    its task preemptible, so it goes first; then most free slots, lowest abort rate, most healthy logins.
    """
    able = [client for client in clients if may_take(client, platforms)]
    return min(able, key=lambda client: _request_rank(client, platforms, blocked), default=None)


def may_take(client: ClientState, platforms: Collection[str]) -> bool:
    """Whether the client may be chosen for a request at all: not paused, and logged in to one of the platforms."""
    return not client.paused and any(map(client.logged_in, platforms))


def _request_rank(
    client: ClientState, platforms: Collection[str], blocked: Mapping[str, Collection[UUID]]
) -> tuple[float, ...]:
    held = sum(1 for platform in platforms if client.client_id in blocked.get(platform, ()))
    healthy = sum(1 for platform in platforms if client.logged_in(platform))
    return (-held, -client.free_slots, client.abort_rate, -healthy, client.client_id.int)


def room_rank(client: ClientState, queued: int) -> tuple[float, ...]:
    """Sort key of clients for one task, best first: room left after what already waits there, then abort rate."""
    return (queued - client.free_slots, client.abort_rate, client.client_id.int)
