"""What the hub is given (the backend's port is `domain/hub_port.py`), and its bounds."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol
from uuid import UUID

from domain.protocol import AUTHENTICATION_SECONDS
from domain.transport import ClientClosed, DispatchMessage

# Of a connection that has not been greeted: lower than every epoch.
NO_EPOCH: Final = 0

# Tells the other hubs that a client is here now. May raise BrokerUnavailable; it is then tried again.
PublishControl = Callable[[ClientClosed], Awaitable[None]]


class DispatchSource(Protocol):
    """Where messages for the bound clients come from; `broker.dispatch_queue.DispatchQueue` is the real one."""

    async def bind(self, client_id: UUID) -> None:
        """After it, whatever is published for the client arrives, or a None tells that it may not have."""
        ...

    async def unbind(self, client_id: UUID) -> None:
        """The client is no longer here."""
        ...

    def messages(self) -> AsyncIterator[DispatchMessage | None]:
        """In order; None: some may be missing, so every client needs a snapshot."""
        ...


class HubStatus(StrEnum):
    """What a hub says to who looks for one."""

    READY = "ready"
    FULL = "full"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class HubState:
    """A hub at this moment; `pending`: sockets that have not authenticated yet."""

    status: HubStatus
    connections: int
    pending: int


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one hub; seconds, frames and bytes. A client that does not pong is dead after interval + timeout."""

    # From the TCP connection to the whole request.
    handshake_seconds: float = 10.0
    authentication_seconds: float = AUTHENTICATION_SECONDS
    # Request line and headers together.
    header_bytes: int = 16 * 1024
    # Open connections; more are closed as HUB_FULL.
    max_connections: int = 12_000
    # Sockets that have not authenticated yet; more are turned away at once.
    max_pending: int = 3_000
    # What a client may send, pings and fragments too. A burst: it may acknowledge a full queue and more.
    frames_per_second: float = 50.0
    frames_burst: int = 500
    ping_interval: float = 15.0
    ping_timeout: float = 15.0
    queue_frames: int = 256
    queue_bytes: int = 1024 * 1024
    heartbeat_fold_seconds: float = 2.0
    # The reports of written frames: a request's counters may be this much behind.
    pushed_fold_seconds: float = 0.05
    # How long a close waits for the other side.
    close_seconds: float = 5.0
    # The whole stop (the process has 10 s), and how its closes are spread: at most so many a second, but no longer.
    drain_seconds: float = 8.0
    drain_closes_per_second: float = 250.0
    drain_spread_seconds: float = 4.0
    # Authentications, greetings and snapshots at once; fewer than the backend has connections, so that a herd leaves
    # room for grants.
    greetings_at_once: int = 3
    longest_pause: float = 5.0
