"""What the hub needs from the outside, and what it hands over (2-desktop §2.1).

The hub knows neither SQL nor Temporal: `store.hub_backend` implements this port, and tests may run the hub on
another implementation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from domain.legacy import TaskId
from domain.protocol import Heartbeat, HeldAttempt, HeldTask, Hello, TaskAvailable, TaskControl


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """The desktop that a device token stands for."""

    client_id: UUID
    tenant_id: int


@dataclass(frozen=True, slots=True)
class SnapshotContent:
    """Everything a client should know. `generation`: the tenant's interrupt counter now."""

    generation: int
    available: list[TaskAvailable]
    controls: list[TaskControl]
    held: list[HeldTask]


@dataclass(frozen=True, slots=True)
class HeartbeatRecord:
    """One client's newest heartbeat, as folded by a hub instance."""

    client_id: UUID
    epoch: int
    heartbeat: Heartbeat


class HubBackend(Protocol):
    """The effects behind the hub. Each call is one short transaction or statement and may be repeated."""

    async def authenticate(self, token: str) -> ClientIdentity | None:
        """The client of a device token; None when it is unknown or revoked."""
        ...

    async def connected(self, client: ClientIdentity, hello: Hello) -> int:
        """A client came: marks it online and returns its new connection epoch, higher than every earlier one."""
        ...

    async def snapshot(
        self, client: ClientIdentity, epoch: int, held: Sequence[HeldAttempt], highest_generation: int
    ) -> SnapshotContent:
        """The client's tasks and pending orders; queued tasks it does not hold get a fresh lease token."""
        ...

    async def grant(self, client: ClientIdentity, epoch: int, task_ids: Sequence[TaskId]) -> list[TaskAvailable]:
        """Lease the queued ones of these tasks to the client; those gone meanwhile are left out.

        A legacy task is not leased: its frame has no attempt and no token, and the client pulls it.
        """
        ...

    async def pushed(self, task_ids: Sequence[UUID]) -> None:
        """The frames of these tasks were written to the socket."""
        ...

    async def heartbeats(self, beats: Sequence[HeartbeatRecord]) -> Mapping[UUID, frozenset[UUID]]:
        """Record the beats of many clients at once; a beat of an older connection changes nothing.

        Returns by client the attempts which it lists though the server has ended them: it must be told.
        """
        ...

    async def disconnected(self, client_id: UUID, epoch: int, code: int | None = None) -> None:
        """The connection of this epoch is gone, with this close code; an older epoch changes nothing."""
        ...
