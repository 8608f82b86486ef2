"""The rebuilder resident: wakes on marks, holds nothing up, and stops when it is replaced."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from activities.projections import ProjectionRebuilder
from domain.errors import FencedOut
from store.database import Pool, transaction
from store.listen import Listener
from store.projections import parked_marks, replay_mark
from store.residents import take
from store.settlement import mark_projections
from tests.support.result_queues import until
from tests.support.world import World

NAME = "projections/0"


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


async def mark(world: World, task: int) -> None:
    async with transaction(world.pool) as connection:
        await mark_projections(connection, [task])


@asynccontextmanager
async def running(pool: Pool, database_url: str) -> AsyncIterator[asyncio.Task[None]]:
    epoch = await take(pool, NAME, "test")
    async with Listener(database_url) as listener:
        task = asyncio.create_task(ProjectionRebuilder(pool, listener).run(NAME, epoch))
        yield task
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_mark_is_rebuilt_and_removed(pool: Pool, database_url: str, world: World) -> None:
    async with running(pool, database_url):
        await mark(world, await world.business_task())

        async def built() -> bool:
            rows = await pool.fetchval("select count(*) from monitoring_brand_daily")
            return bool(rows == 1 and not await pool.fetchval("select count(*) from projection_rebuild_queue"))

        await until(built)


async def test_a_day_that_fails_is_put_off_and_the_next_one_is_rebuilt(
    pool: Pool, database_url: str, world: World
) -> None:
    other = await World.create(pool, "Other")
    await pool.execute(
        "create function refuse() returns trigger language plpgsql as"
        f" $$ begin if new.tenant_id = {world.tenant_id} then raise data_exception; end if; return new; end $$"
    )
    await pool.execute(
        "create trigger refuse before insert on monitoring_brand_daily for each row execute function refuse()"
    )
    await mark(world, await world.business_task())
    await mark(other, await other.business_task())
    async with running(pool, database_url):

        async def other_built() -> bool:
            built = await pool.fetchval(
                "select count(*) from monitoring_brand_daily where tenant_id = $1", other.tenant_id
            )
            tries = await pool.fetchval("select tries from projection_rebuild_queue where last_error is not null")
            return bool(built == 1 and tries and tries >= 1)

        await until(other_built)


async def test_a_day_is_parked_after_five_failures_of_its_own_and_built_once_its_cause_is_gone(
    pool: Pool, database_url: str, world: World
) -> None:
    await pool.execute(
        "create function refuse() returns trigger language plpgsql as $$ begin raise data_exception; end $$"
    )
    await pool.execute(
        "create trigger refuse before insert on monitoring_brand_daily for each row execute function refuse()"
    )
    await mark(world, await world.business_task())
    epoch = await take(pool, NAME, "test")
    rebuilder = ProjectionRebuilder(pool, Listener(database_url))
    for _ in range(5):
        await pool.execute("update projection_rebuild_queue set not_before = now()")
        assert await rebuilder.rebuild_next(NAME, epoch)
    assert not await rebuilder.rebuild_next(NAME, epoch)
    [parked] = await parked_marks(pool, 10)
    assert (parked.tries, str(parked.error).split(":")[0]) == (5, "DataError")
    await pool.execute("drop trigger refuse on monitoring_brand_daily")
    assert await replay_mark(pool, parked.day)
    assert await rebuilder.rebuild_next(NAME, epoch)
    assert await pool.fetchval("select count(*) from monitoring_brand_daily") == 1


async def test_a_terminated_connection_is_no_failed_try(pool: Pool, database_url: str, world: World) -> None:
    async with running(pool, database_url):
        await pool.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        await mark(world, await world.business_task())

        async def built() -> bool:
            return bool(await pool.fetchval("select count(*) from monitoring_brand_daily") == 1)

        await until(built)
        assert await pool.fetchval("select coalesce(max(tries), 0) from projection_rebuild_queue") == 0


async def test_a_replaced_rebuilder_writes_nothing(pool: Pool, database_url: str, world: World) -> None:
    epoch = await take(pool, NAME, "old")
    await take(pool, NAME, "new")
    await mark(world, await world.business_task())
    async with Listener(database_url) as listener:
        with pytest.raises(FencedOut):
            await ProjectionRebuilder(pool, listener).run(NAME, epoch)
    assert await pool.fetchval("select count(*) from monitoring_brand_daily") == 0
