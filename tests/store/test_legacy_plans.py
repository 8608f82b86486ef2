"""The legacy path's statements find their rows by small partial indexes, whatever the backlog (1-dispatch §1.4)."""

import pytest

from domain.ids import new_uuid
from store import legacy_ends, legacy_held, legacy_offers, legacy_preemption, legacy_pull, preemption
from store.database import Pool
from tests.support.backlog import add_backlog, explain
from tests.support.legacy import LegacyHands, offered
from tests.support.world import Desktop, World

LARGE = {"monitoring_collect_tasks", "desktop_task_attempts", "questions", "question_versions"}

_OLD_LEASES = """
insert into desktop_task_attempts (id, tenant_id, monitor_task_id, client_id, attempt, token_hash, ended_at, outcome)
select gen_random_uuid(), tenant_id, id, $1, 1, '', now() - interval '1 day', 'failed' from monitoring_collect_tasks
"""


@pytest.fixture
async def busy(pool: Pool) -> tuple[World, Desktop]:
    """20,000 legacy tasks, each leased before; one desktop has some on offer and one leased."""
    world = await World.create(pool)
    await add_backlog(world, 20_000)
    await pool.execute("update monitoring_collect_tasks set execution_owner = 'legacy'")
    client = await world.client(max_concurrent=4)
    await pool.execute(_OLD_LEASES, client.id)
    rows = await pool.fetch("select id from monitoring_collect_tasks order by id limit 5")
    await offered(world, client, *(row["id"] for row in rows))
    await LegacyHands(world, client).pull(1)
    await pool.execute("vacuum analyze")
    return world, client


async def test_no_legacy_statement_reads_the_backlog(busy: tuple[World, Desktop]) -> None:
    world, client = busy
    tenant, here, request = world.tenant_id, client.id, new_uuid()
    pulls, offers, advice = legacy_pull.SQL, legacy_offers.SQL, legacy_preemption.SQL
    attempts, hashes = [new_uuid()], [b"x" * 32]
    plans = {
        "offered_platforms": (pulls["offered_platforms"], (here, tenant)),
        "lease_offered": (pulls["lease_offered"], (here, tenant, ["qwen"], [1], 1, attempts, hashes, 120)),
        "count_offers": (pulls["count_offers"], (here, tenant)),
        "read_offers": (offers["read_offers"], ([here], [tenant], [1], [None])),
        "withdraw_scheduled": (offers["withdraw_scheduled"], (here, request)),
        "withdraw_stale": (offers["withdraw_stale"], (500,)),
        "unheard": (offers["unheard"], (10, 500)),
        "expired": (legacy_ends.SQL["expired"], (500, True)),
        "never_ingested": (legacy_ends.SQL["never_ingested"], (900, 500)),
        "concerns": (legacy_held.SQL["concerns"], (here, tenant, 1)),
        "unlisted": (legacy_held.SQL["unlisted"], (here, tenant, [], 1)),
        "pending_interrupts": (legacy_held.SQL["pending_interrupts"], (here, tenant)),
        "find_leased": (advice["find_leased"], (here, request, 1)),
        "withdraw_orders": (advice["withdraw_orders"], (request, tenant)),
        "lock_business_tasks": (preemption.SQL["lock_business_tasks"], ([1, 2, 3], here)),
    }
    for name, (statement, arguments) in plans.items():
        plan = await explain(world.pool, statement, *arguments)
        assert not plan.seq_scans & LARGE, name
        assert plan.discarded <= 100, name
