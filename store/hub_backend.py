"""The hub's port on PostgreSQL (domain/hub_port.py). No connection is held between calls."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from domain.hub_port import ClientIdentity, ConnectionEnd, GrantAnswer, GrantRequest, HeartbeatRecord, SnapshotContent
from domain.protocol import HeldAttempt, Hello, ProxyRequest
from domain.proxying import AnswerOutcome, ProxyAnswer
from store import legacy_held, legacy_offers, presence, proxy_calls, snapshots
from store.clients import authenticate_device
from store.database import Pool
from store.outages import as_unavailable


class StoreHubBackend:
    """Implements `HubBackend`; any number of hubs may share one database. `hub` names this one to operators."""

    def __init__(self, pool: Pool, *, hub: str | None = None) -> None:
        self._pool = pool
        self._hub = hub

    @as_unavailable
    async def authenticate(self, token: str) -> ClientIdentity | None:
        """The client of a device token; None when it is unknown or revoked."""
        return await authenticate_device(self._pool, token)

    @as_unavailable
    async def connected(self, client: ClientIdentity, hello: Hello) -> int:
        """Online from now on; the new epoch. Unauthorized when its token has ended since it authenticated."""
        epoch = await presence.connect(self._pool, client, hello, hub=self._hub)
        await legacy_held.end_unlisted(self._pool, client, epoch, hello.held)
        return epoch

    @as_unavailable
    async def snapshot(
        self, client: ClientIdentity, epoch: int, held: Sequence[HeldAttempt], highest_generation: int
    ) -> SnapshotContent:
        """Everything the client should know, with fresh leases for what it does not hold."""
        content = await snapshots.take_snapshot(self._pool, client, epoch, held, highest_generation)
        return await legacy_held.complete(self._pool, client, epoch, held, content)

    @as_unavailable
    async def grant(self, requests: Sequence[GrantRequest]) -> list[GrantAnswer]:
        """Leases for those tasks that still wait for their clients; of legacy ones the offers, which they pull."""
        # Offers first: a failure after the leases would cost each client a snapshot.
        offers = await legacy_offers.read_announced(self._pool, requests)
        answers = await snapshots.grant_leases(self._pool, requests)
        return [
            GrantAnswer(answer.frames + offered, answer.busy) for answer, offered in zip(answers, offers, strict=True)
        ]

    @as_unavailable
    async def pushed(self, task_ids: Sequence[UUID]) -> None:
        """The frames of these tasks were written."""
        await snapshots.mark_pushed(self._pool, task_ids)

    @as_unavailable
    async def heartbeats(self, beats: Sequence[HeartbeatRecord]) -> Mapping[UUID, frozenset[UUID]]:
        """Many clients' beats in one statement; then, in one more, what they list and no longer have."""
        if not beats:
            return {}
        await presence.record_heartbeats(self._pool, beats)
        await legacy_held.extend_beats(self._pool, beats)
        return await snapshots.find_taken_away(self._pool, beats)

    @as_unavailable
    async def disconnected(self, ends: Sequence[ConnectionEnd]) -> None:
        """These connections are gone."""
        await presence.disconnect(self._pool, ends)

    @as_unavailable
    async def proxy_requests(
        self, client: ClientIdentity, epoch: int, call_ids: Sequence[UUID]
    ) -> Sequence[ProxyRequest]:
        """Those of the calls that still wait for this client's answer."""
        return await proxy_calls.read_open(self._pool, client, epoch, call_ids)

    @as_unavailable
    async def refuse_proxies(self, client: ClientIdentity, epoch: int, call_ids: Sequence[UUID]) -> None:
        """Those that wait are answered: this client cannot be asked."""
        await proxy_calls.refuse_calls(self._pool, client, epoch, call_ids)

    @as_unavailable
    async def answer_proxy(self, client: ClientIdentity, call_id: UUID, answer: ProxyAnswer) -> AnswerOutcome:
        """Keep the first answer in time, and wake who waits for it."""
        return await proxy_calls.answer_call(self._pool, client, call_id, answer)
