"""Hub and API in a process of their own, reference desktops beside the test, and the residents that leases need.

The database's clock can be set apart from everybody else's: `now()` of every statement is the rig's own.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import asyncpg

from activities.ingest import IngestShard
from activities.outbox_pump import OutboxPump
from activities.presence import PresenceSweeper
from broker.connection import BrokerConnection
from broker.consumer import IngestConsumer
from broker.dead_letters import dead_letter
from broker.publisher import Publisher
from desktop.backoff import Backoff
from desktop.config import DesktopConfig, Timings
from desktop.rest import RestPolicy, Tries
from domain.transport import TaskHint
from store import residents
from store.database import Pool, open_pool
from store.listen import Listener
from store.raw_answers import RawAnswers
from tests.activities.pumping import pumping
from tests.desktop.desk import Desk
from tests.desktop.stepdriver import StepDriver
from tests.faults.hub_rig import publish
from tests.support.hub_server import HubServer
from tests.support.ingesting import running
from tests.support.results import chat_answer
from tests.support.world import Desktop, World

SOON: Final = Backoff(0.01, 0.05)
POLICY: Final = RestPolicy(Tries(3, 15.0, 0.01, 0.02), Tries(4, 15.0, 0.01, 0.02), Tries(1, 15.0))
# A desktop that beats once, with its first snapshot, and never again: as good as frozen for the server.
FROZEN: Final = 100_000.0

OWN_CLOCK: Final = """
create schema apart;
create table apart.clock (ahead interval not null);
insert into apart.clock values ('0');
create function apart.now() returns timestamptz language sql stable
    as 'select pg_catalog.now() + (select ahead from apart.clock)';
create function apart.clock_timestamp() returns timestamptz language sql volatile
    as 'select pg_catalog.clock_timestamp() + (select ahead from apart.clock)';
do $$ declare found record; begin
    for found in select d.adrelid::regclass as owner, a.attname from pg_attrdef d
        join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
        where pg_get_expr(d.adbin, d.adrelid) = 'now()' and d.adrelid::regclass::text not like '%.%'
    loop execute format('alter table %s alter column %I set default apart.now()', found.owner, found.attname); end loop;
    execute format('alter database %I set search_path = apart, public, pg_catalog', current_database());
end $$
"""


async def give_it_a_clock_of_its_own(database_url: str) -> None:
    """For connections from now on."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(OWN_CLOCK)
    finally:
        await connection.close()


@dataclass
class LeaseRig:
    """The server, a tenant, and what a test opened."""

    server: HubServer
    world: World
    publisher: Publisher
    stack: AsyncExitStack
    state_dir: Path

    @property
    def pool(self) -> Pool:
        return self.world.pool

    async def set_clock(self, ahead: timedelta) -> None:
        """The database's clock, before or behind everybody's."""
        await self.pool.execute("update apart.clock set ahead = $1", ahead)

    async def desk(self, client: Desktop, driver: StepDriver, *, heartbeat: float = FROZEN, slots: int = 1) -> Desk:
        """The reference desktop, connected."""
        timings = Timings(heartbeat=heartbeat, no_slot=0.05, stale_grace=20.0, reconnect=SOON, crowded=SOON)
        config = DesktopConfig(
            client_id=str(client.id),
            token=client.token,
            ws_url=self.server.url,
            api_url=self.server.api_url,
            state_dir=self.state_dir,
            driver=driver,
            max_concurrent=slots,
            timings=timings,
        )
        desk = await self.stack.enter_async_context(Desk(config, POLICY))
        await desk.connected()
        return desk

    async def waiting(self, client: Desktop, platform: str = "qwen") -> UUID:
        """A task that waits for the client, unleased."""
        return await self.world.execution_task(await self.world.business_task(platform=platform), client.id)

    async def hint(self, client: Desktop, task: UUID) -> None:
        """Have it pushed."""
        assert await publish(self.publisher, TaskHint(task_id=str(task), client_id=str(client.id)))

    async def has_beaten(self, client: Desktop) -> None:
        """The first beat after the snapshot is in: none of a frozen desktop follows."""
        beaten = "select last_heartbeat_at > connected_at from desktop_clients where id = $1"
        await self.until(beaten, client.id)

    async def until(self, query: str, *arguments: Any) -> None:
        """Wait until the query says true."""
        async with asyncio.timeout(30):
            while not await self.pool.fetchval(query, *arguments):
                await asyncio.sleep(0.02)

    async def is_now(self, task: UUID, status: str) -> None:
        """Wait until the execution task has the status."""
        await self.until("select status = $2 from desktop_tasks where id = $1", task, status)

    async def leave(self, task: UUID, seconds: float) -> None:
        """So much is left of the lease."""
        aged = "update desktop_tasks set lease_expires_at = now() + make_interval(secs => $2) where id = $1"
        await self.pool.execute(aged, task, seconds)

    async def sweep(self) -> dict[str, int]:
        name = "presence-sweeper/0"
        return await PresenceSweeper(self.pool).sweep(name, await residents.take(self.pool, name, "test"))


@asynccontextmanager
async def lease_rig(server: HubServer, state_dir: Path) -> AsyncIterator[LeaseRig]:
    """A rig with the outbox pump and an ingest shard at work; everything that a test opens ends with it."""
    async with AsyncExitStack() as stack:
        pool = await open_pool(server.database_url, size=10, name="giveway-test")
        stack.callback(pool.terminate)
        connection = await stack.enter_async_context(BrokerConnection(server.amqp_url, name="test"))
        publisher = Publisher(connection, prefix=server.prefix, shards=1)
        listener = await stack.enter_async_context(Listener(server.database_url))
        await listener.ready.wait()
        await stack.enter_async_context(pumping(pool, OutboxPump(pool, listener, publisher).run))
        await stack.enter_async_context(running(pool, _ingest(pool, connection, publisher, server, state_dir)))
        yield LeaseRig(server, await World.create(pool), publisher, stack, state_dir)


def _ingest(
    pool: Pool, connection: BrokerConnection, publisher: Publisher, server: HubServer, state_dir: Path
) -> IngestShard:
    def consumer(shard: int) -> IngestConsumer:
        return IngestConsumer(connection, shard, shards=1, prefix=server.prefix)

    async def bury(message: Any, reason: str, shard: int) -> None:
        await dead_letter(publisher, message, reason, shard)

    return IngestShard(pool, consumer, RawAnswers((state_dir / "raw").as_uri()), bury, retry_pause=0.01)


def answering() -> StepDriver:
    """A driver whose answers ingest takes."""
    return StepDriver(chat_answer("Acme is fine."))
