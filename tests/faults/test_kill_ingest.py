"""kill -9 of the ingest worker and a broker that ends, amid 1,000 results: the end is that of an undisturbed run."""

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from broker.connection import BrokerConnection
from broker.publisher import Outcome, Outgoing, Publisher
from devstack.apps import with_ready_file
from devstack.part import Part
from devstack.supervisor import Supervisor
from domain.ids import shard_of
from domain.transport import INGEST_DEAD_LETTER_QUEUE, INGEST_EXCHANGE
from store.audit import Integrity, check_integrity
from store.database import Pool
from tests.conftest import Servers
from tests.faults.own_broker import OwnBroker
from tests.faults.thousand import Sent, differences, make_results, make_world, picture
from tests.support.result_queues import until

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("own-broker")]

REPOSITORY = Path(__file__).resolve().parents[2]
SHARDS = 2


@asynccontextmanager
async def ingest_process(
    servers: Servers, database_url: str, amqp_url: str, prefix: str, state_dir: Path
) -> AsyncIterator[Supervisor]:
    """The residents in a supervised process: a killed one is started again."""
    env = {
        **os.environ, "DATABASE_URL": database_url, "AMQP_URL": amqp_url, "AMQP_PREFIX": prefix,
        "TEMPORAL_ADDRESS": servers.temporal_address, "TEMPORAL_NAMESPACE": servers.temporal_namespace,
        "INGEST_SHARDS": str(SHARDS), "RAW_STORE_URL": (state_dir / "raw").as_uri(), "DATABASE_POOL_SIZE": "6",
    }  # fmt: skip
    supervisor = Supervisor(state_dir)
    supervisor.clean_up()
    argv = (sys.executable, "-m", "tests.faults.ingest_process")
    try:
        await supervisor.start(with_ready_file(Part("ingest", argv, env, cwd=REPOSITORY), state_dir))
        yield supervisor
    finally:
        await supervisor.stop_all()


async def publish(publisher: Publisher, sent: Sequence[Sent], rng: random.Random) -> None:
    """As desktops do: in portions of any size, and again until the broker has confirmed it."""
    left = list(sent)
    while left:
        size = rng.randrange(1, 80)
        messages = [
            Outgoing(INGEST_EXCHANGE, str(shard_of(each.shard_key, SHARDS)), each.body, each.attempt_id)
            for each in left[:size]
        ]
        outcomes = await publisher.publish_many(messages)
        taken = next((n for n, outcome in enumerate(outcomes) if outcome is not Outcome.ROUTED), len(outcomes))
        left = left[taken:]
        if taken < len(outcomes):
            await asyncio.sleep(0.1)


async def ended(pool: Pool, tenant_id: int) -> int:
    """Attempts whose result is in."""
    count: int = await pool.fetchval(
        "select count(*) from desktop_task_attempts where tenant_id = $1 and result_received_at is not null", tenant_id
    )
    return count


async def until_settled(pool: Pool, tenant_id: int, attempts: int) -> None:
    """Every result is in and every day is rebuilt."""

    async def settled() -> bool:
        if await ended(pool, tenant_id) < attempts:
            return False
        waiting = await pool.fetchval("select count(*) from projection_rebuild_queue where tenant_id = $1", tenant_id)
        return bool(waiting == 0)

    await until(settled, seconds=120)


async def disturb(pool: Pool, tenant_id: int, supervisor: Supervisor, broker: OwnBroker, rng: random.Random) -> None:
    """Two kills of the worker and one end of the broker, each somewhere in its third of the run."""
    moments = [rng.randrange(at, at + 250) for at in (50, 350, 650)]
    acts = ["worker", "worker", "broker"]
    rng.shuffle(acts)
    for moment, act in zip(moments, acts, strict=True):

        async def reached(count: int = moment) -> bool:
            return await ended(pool, tenant_id) >= count

        await until(reached, seconds=120)
        if act == "broker":
            await broker.restart() if rng.random() < 0.5 else broker.kill()
        elif (pid := supervisor.pid("ingest")) is not None:
            os.kill(pid, signal.SIGKILL)


async def dead_letters(connection: BrokerConnection, prefix: str) -> int:
    channel = await connection.channel()
    queue = await channel.declare_queue(prefix + INGEST_DEAD_LETTER_QUEUE, passive=True)
    await channel.close()
    return queue.declaration_result.message_count or 0


async def test_a_thousand_results_end_as_if_nothing_had_happened(
    servers: Servers, own_broker: OwnBroker, database_url: str, pool: Pool, tmp_path: Path, rng: random.Random
) -> None:
    seed, prefix = rng.random(), f"kill-{uuid4().hex[:8]}."
    pictures = []
    async with (
        BrokerConnection(own_broker.url, name="fault-test") as connection,
        ingest_process(servers, database_url, own_broker.url, prefix, tmp_path) as supervisor,
    ):
        publisher = Publisher(connection, prefix=prefix, shards=SHARDS)
        for name in ("undisturbed", "disturbed"):
            world, client = await make_world(pool, "Acme")
            sent = await make_results(world, client, random.Random(seed))
            attempts = len({each.attempt_id for each in sent})
            assert attempts >= 1_000
            async with asyncio.TaskGroup() as group:
                group.create_task(publish(publisher, sent, rng))
                if name == "disturbed":
                    group.create_task(disturb(pool, world.tenant_id, supervisor, own_broker, rng))
            await until_settled(pool, world.tenant_id, attempts)
            pictures.append(await picture(pool, world.tenant_id))
            integrity = await check_integrity(pool, world.tenant_id)
            assert integrity == Integrity(lost=0, duplicated=0, miscounted=0, overhanging=0)
        assert await dead_letters(connection, prefix) == 0
    assert differences(*pictures) == {}
    assert supervisor.status()[0].restarts == 2
