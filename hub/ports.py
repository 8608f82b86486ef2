"""What the hub is given (the backend's port is `domain/hub_port.py`), and its bounds."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from domain.protocol import AUTHENTICATION_SECONDS
from domain.transport import ClientClosed, DispatchMessage

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


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one hub; seconds, frames and bytes. A client that does not pong is dead after interval + timeout."""

    authentication_seconds: float = AUTHENTICATION_SECONDS
    ping_interval: float = 15.0
    ping_timeout: float = 15.0
    queue_frames: int = 256
    queue_bytes: int = 1024 * 1024
    heartbeat_fold_seconds: float = 2.0
    # How long a close waits for the other side.
    close_seconds: float = 5.0
    drain_seconds: float = 10.0
    # Greetings and snapshots at once; fewer than the backend has connections, so that a herd leaves room for grants.
    greetings_at_once: int = 3
    longest_pause: float = 5.0
