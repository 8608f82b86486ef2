"""Damage as tests of reconcile do it, and what a run must do about it."""

from datetime import UTC, datetime
from uuid import UUID

from domain.lanes import Lane
from domain.messages import DatabaseFixes, DatabaseReconciled
from store.reconcile import reconcile_database
from tests.support.clicks import whole
from tests.support.world import Desktop, Lease, World, ago

NOTHING = DatabaseReconciled()


async def mended(world: World, **kinds: int) -> None:
    """One run mends exactly this and leaves everything whole; the next run, and the audit, agree."""
    first = await reconcile_database(world.pool)
    assert first == DatabaseReconciled(fixed=DatabaseFixes(**kinds))
    assert await reconcile_database(world.pool) == NOTHING
    assert await audited(world) == {f"reconcile.{kind}": count for kind, count in kinds.items()}
    assert await whole(world)


async def audited(world: World) -> dict[str, int]:
    """How many rows reconcile has mended, by kind."""
    rows = await world.pool.fetch(
        "select action, count(*) as n from audit_events where actor = 'reconcile' and tenant_id = $1 group by 1",
        world.tenant_id,
    )
    return {row["action"]: row["n"] for row in rows}


async def age(world: World, seconds: float = 61) -> None:
    """As if nothing had been written for so long."""
    moved = f"- interval '{seconds} seconds'"
    await world.pool.execute(f"update monitoring_collect_tasks set updated_at = updated_at {moved}")
    await world.pool.execute(
        f"update desktop_tasks set updated_at = updated_at {moved}, created_at = created_at {moved}"
    )


async def in_request(world: World, client: Desktop, *, status: str = "queued", tasks: int = 1) -> tuple[UUID, Lease]:
    """A task of an open request, leased on the client."""
    request = await world.request(client_id=client.id, tasks=tasks)
    return request, await world.leased(client, status=status, lane=Lane.HIGH, request_id=request)


async def over(world: World, lease: Lease) -> None:
    """The execution task ended, and its business task was not told."""
    await world.set("desktop_tasks", lease.task_id, status="aborted", lease_expires_at=None)
    await world.set("desktop_task_attempts", lease.attempt_id, ended_at=datetime.now(UTC), outcome="cancelled")


async def unwanted(world: World, client: Desktop, **columns: object) -> Lease:
    """An execution task whose business task is finished."""
    lease = await world.leased(client, status="in_progress")
    await world.set("monitoring_collect_tasks", lease.business_id, status="skipped", active_task_id=None)
    await world.set("desktop_tasks", lease.task_id, **columns)
    return lease


async def unknown(world: World, client: Desktop, **columns: object) -> Lease:
    lease = await world.leased(client, status="in_progress")
    await world.set("desktop_tasks", lease.task_id, status="unknown", lease_expires_at=ago(seconds=1))
    await world.set("desktop_tasks", lease.task_id, updated_at=ago(seconds=60), **columns)
    return lease
