"""The hub's port on PostgreSQL (domain/hub_port.py). No connection is held between calls."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from domain.hub_port import ClientIdentity, HeartbeatRecord, SnapshotContent
from domain.legacy import TaskId
from domain.protocol import HeldAttempt, Hello, TaskAvailable
from store import legacy_held, legacy_offers, presence, snapshots
from store.clients import authenticate_device
from store.database import Pool


class StoreHubBackend:
    """Implements `HubBackend`; any number of hubs may share one database."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def authenticate(self, token: str) -> ClientIdentity | None:
        """The client of a device token; None when it is unknown or revoked."""
        return await authenticate_device(self._pool, token)

    async def connected(self, client: ClientIdentity, hello: Hello) -> int:
        """Online from now on; the new epoch. Unauthorized when the client was revoked since it authenticated."""
        epoch = await presence.connect(self._pool, client, hello)
        await legacy_held.end_unlisted(self._pool, client, epoch, hello.held)
        return epoch

    async def snapshot(
        self, client: ClientIdentity, epoch: int, held: Sequence[HeldAttempt], highest_generation: int
    ) -> SnapshotContent:
        """Everything the client should know, with fresh leases for what it does not hold."""
        content = await snapshots.take_snapshot(self._pool, client, epoch, held, highest_generation)
        return await legacy_held.complete(self._pool, client, epoch, held, content)

    async def grant(self, client: ClientIdentity, epoch: int, task_ids: Sequence[TaskId]) -> list[TaskAvailable]:
        """Leases for those tasks that still wait for this client; of legacy ones the offers, which it pulls."""
        executions = [each for each in task_ids if isinstance(each, UUID)]
        offered = [each for each in task_ids if isinstance(each, int)]
        frames = await snapshots.grant_leases(self._pool, client, epoch, executions) if executions else []
        return frames + (await legacy_offers.read_offers(self._pool, client, epoch, offered) if offered else [])

    async def pushed(self, task_ids: Sequence[UUID]) -> None:
        """The frames of these tasks were written."""
        await snapshots.mark_pushed(self._pool, task_ids)

    async def heartbeats(self, beats: Sequence[HeartbeatRecord]) -> Mapping[UUID, frozenset[UUID]]:
        """Many clients' beats in one statement; then, in one more, what they list and no longer have."""
        if not beats:
            return {}
        await presence.record_heartbeats(self._pool, beats)
        await legacy_held.extend_beats(self._pool, beats)
        return await snapshots.find_taken_away(self._pool, beats)

    async def disconnected(self, client_id: UUID, epoch: int, code: int | None = None) -> None:
        """The connection of this epoch is gone."""
        await presence.disconnect(self._pool, client_id, epoch)
