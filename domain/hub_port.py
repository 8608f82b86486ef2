"""What the hub needs from the outside, and what it hands over (2-desktop §2.1).

The hub knows neither SQL nor Temporal: `store.hub_backend` implements this port, and tests may run the hub on
another implementation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from domain.legacy import TaskId
from domain.protocol import Heartbeat, HeldAttempt, HeldTask, Hello, ProxyRequest, TaskAvailable, TaskControl
from domain.proxying import AnswerOutcome, ProxyAnswer


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """The desktop that a device token stands for.

    `token_hash`: of the token that it showed, to see whether it is still the one; None for who showed none.
    """

    client_id: UUID
    tenant_id: int
    token_hash: bytes | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class SnapshotContent:
    """Everything a client should know. `generation`: the tenant's interrupt counter now; `proxies`: open calls."""

    generation: int
    available: list[TaskAvailable]
    controls: list[TaskControl]
    held: list[HeldTask]
    proxies: list[ProxyRequest] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class HeartbeatRecord:
    """One client's newest heartbeat, as folded by a hub instance."""

    client_id: UUID
    epoch: int
    heartbeat: Heartbeat


@dataclass(frozen=True, slots=True)
class ConnectionEnd:
    """A connection that is over: whose, which one, and the code it was closed with (None: unknown)."""

    client_id: UUID
    epoch: int
    code: int | None = None


@dataclass(frozen=True, slots=True)
class GrantRequest:
    """Tasks that were announced to the connection of this epoch."""

    client: ClientIdentity
    epoch: int
    task_ids: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class GrantAnswer:
    """Frames of what was leased, most urgent first; `busy`: held by somebody else at the moment, ask again."""

    frames: list[TaskAvailable]
    busy: tuple[TaskId, ...] = ()


class HubBackend(Protocol):
    """The effects behind the hub. Each call is one short transaction or statement and may be repeated."""

    async def authenticate(self, token: str) -> ClientIdentity | None:
        """The client of a device token; None when it is unknown or revoked."""
        ...

    async def connected(self, client: ClientIdentity, hello: Hello) -> int:
        """A client came: marks it online and returns its new connection epoch, higher than every earlier one.

        Unauthorized when it was revoked, or its token rotated, since it authenticated.
        """
        ...

    async def snapshot(
        self, client: ClientIdentity, epoch: int, held: Sequence[HeldAttempt], highest_generation: int
    ) -> SnapshotContent:
        """The client's tasks and pending orders; queued tasks it does not hold get a fresh lease token."""
        ...

    async def grant(self, requests: Sequence[GrantRequest]) -> list[GrantAnswer]:
        """Lease the queued ones of these tasks to their clients; the answers in the order of the requests.

        What is gone meanwhile is left out, and so is everything for a client that is revoked or has a newer
        connection: that costs the others nothing. No request waits for another's locks.
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

    async def disconnected(self, ends: Sequence[ConnectionEnd]) -> None:
        """These connections are gone, of many clients at once; the end of an older epoch changes nothing."""
        ...

    async def proxy_requests(
        self, client: ClientIdentity, epoch: int, call_ids: Sequence[UUID]
    ) -> Sequence[ProxyRequest]:
        """Those of the calls that still wait for this client's answer; none for a connection that was replaced."""
        ...

    async def refuse_proxies(self, client: ClientIdentity, epoch: int, call_ids: Sequence[UUID]) -> None:
        """This connection's client cannot be asked: those that wait are answered PROXY_UNSUPPORTED."""
        ...

    async def answer_proxy(self, client: ClientIdentity, call_id: UUID, answer: ProxyAnswer) -> AnswerOutcome:
        """The client's answer. The first one in time counts; the others change nothing."""
        ...
