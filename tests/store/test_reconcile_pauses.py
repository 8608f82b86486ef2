"""What a pause holds is damage only long after the pause (1-dispatch §1.6, §1.8)."""

import pytest

from domain.messages import BatchRef, DatabaseReconciled
from store import batches
from store.database import Pool
from store.reconcile import reconcile_database
from store.statements import statements
from tests.support.world import World, ago


@pytest.mark.parametrize("order", ["resume", "cancel"])
async def test_what_an_order_is_just_letting_go_page_by_page_is_no_damage(pool: Pool, order: str) -> None:
    world = await World.create(pool)
    batch = await world.batch(expected=1)
    task = await world.business_task(batch_id=batch)
    await batches.pause_batch(pool, BatchRef(batch_id=batch, tenant_id=world.tenant_id))
    await world.set("monitoring_collect_tasks", task, updated_at=ago(hours=1))
    await pool.execute(statements("batches")[order], batch)
    assert await reconcile_database(pool) == DatabaseReconciled()
    assert (await world.business(task))["active_task_id"] is not None
    await world.set("scheduled_batches", batch, unpaused_at=ago(minutes=6))
    assert (await reconcile_database(pool)).fixed.freed_tasks == 1
