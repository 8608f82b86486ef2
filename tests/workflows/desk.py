"""The desktop's and the hub's side of a test: leases, frames, starts and results by the store's own effects."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from domain.hub_port import ClientIdentity
from store.database import Pool, transaction
from store.hub_backend import StoreHubBackend
from store.progress import refresh_requests
from store.releases import Release, lock_executions, release
from store.settlement import Ending, settle
from tests.support.granting import grant
from tests.support.world import Desktop, World

CHUNK = 20


@dataclass(frozen=True, slots=True)
class Running:
    """A task that a desktop runs."""

    task_id: UUID
    business_id: int
    attempt_id: UUID


@dataclass
class Desk:
    """One desktop. Slots are not looked at: how fast work moves is not what these tests are about."""

    pool: Pool
    world: World
    desktop: Desktop

    @property
    def _identity(self) -> ClientIdentity:
        return ClientIdentity(self.desktop.id, self.world.tenant_id)

    async def dispatch(self, business_ids: Sequence[int], *, source: str = "collect_now") -> list[UUID]:
        """Execution tasks, leased, with their frames written; returns their ids."""
        tasks = [await self.world.execution_task(task, self.desktop.id, source=source) for task in business_ids]
        hub = StoreHubBackend(self.pool)
        epoch = await self.pool.fetchval("select connection_epoch from desktop_clients where id = $1", self.desktop.id)
        granted = await grant(hub, self._identity, epoch, tasks)
        assert len(granted) == len(tasks), "every task waits for this desktop"
        await hub.pushed(tasks)
        return tasks

    async def start(self, task_ids: Sequence[UUID]) -> list[Running]:
        """In progress."""
        rows = await self.pool.fetch(
            "with started as (update desktop_tasks set status = 'in_progress', started_at = now(), phase = 'WAITING'"
            " where id = any($1::uuid[]) returning id, monitor_task_id, attempt_id)"
            " update desktop_task_attempts a set started_at = now() from started s where a.id = s.attempt_id"
            " returning s.id, s.monitor_task_id, s.attempt_id",
            list(task_ids),
        )
        await self._recount()
        return [Running(row["id"], row["monitor_task_id"], row["attempt_id"]) for row in rows]

    async def _recount(self) -> None:
        async with transaction(self.pool) as connection:
            rows = await connection.fetch("select id from monitoring_collect_requests")
            await refresh_requests(connection, [row["id"] for row in rows])

    async def finish(self, running: Sequence[Running], *, succeeded: bool = True) -> None:
        """Results, ingested in chunks as ingest does."""
        for first in range(0, len(running), CHUNK):
            endings = [Ending(task.attempt_id, succeeded) for task in running[first : first + CHUNK]]
            async with transaction(self.pool) as connection:
                await settle(connection, endings)

    async def give_way(self, running: Running) -> None:
        """A victim reached its safe point."""
        async with transaction(self.pool) as connection:
            await lock_executions(connection, [running.task_id])
            await release(connection, [running.task_id], Release.PREEMPTED)

    async def run_all(self, business_ids: Sequence[int], *, source: str = "collect_now") -> None:
        """Dispatched, started and succeeded."""
        await self.finish(await self.start(await self.dispatch(business_ids, source=source)))
