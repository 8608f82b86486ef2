"""What people do: clicks of every kind, cancels, orders about batches, settings, pauses, the emergency way back."""

from typing import Any
from uuid import UUID

from domain.lanes import Lane
from domain.messages import BatchRef, RequestRef
from domain.pauses import PauseKind, PauseTarget
from store import batches, legacy_rollback, pauses, requests
from store.database import transaction
from store.force_release import force_release
from store.settings import write_dispatch_setting
from tests.model.state import LIVE, OPEN, OPEN_BATCH, PLATFORMS, Model, Moves
from tests.support.batches import materialise
from tests.support.clicks import click
from tests.support.world import World


async def press(model: Model) -> bool | None:
    """A click: scopes that overlap, named clients (another tenant's too), replays, without preemption."""
    world = model.world()
    chosen = model.dice.sample(model.questions[world.tenant_id], model.dice.choice([1, 1, 1, 3]))
    desk = model.desk(connected=False)
    own = [each for each in model.desks if each.world is world]
    busy = model.one([each for each in own if each.running]) or model.one(own) or desk
    assert desk is not None
    assert busy is not None
    done = await click(
        world,
        question_ids=chosen,
        platforms=model.dice.choice([None, [model.dice.choice(PLATFORMS)]]),
        preempt=model.chance(0.8),
        target_client_id=model.dice.choice([None, None, busy.id, busy.id, desk.id]),
        user_id=model.dice.randint(1, 3 if model.chance(0.2) else 10**6),
        idempotency_key=model.dice.choice([None, None, "a", "b"]),
    )
    model.note(f"{done.outcome.value} {done.error_code or (done.answer and done.answer.request_id)}")


async def press_again(model: Model) -> bool | None:
    """The very call of an earlier request, sent once more."""
    row = await model.row("select id, tenant_id, requested_by_user_id from monitoring_collect_requests order by id")
    if row is None:
        return False
    done = await click(model.world_of(row["tenant_id"]), request_id=row["id"], user_id=row["requested_by_user_id"])
    model.note(done.outcome.value)


# --- requests ------------------------------------------------------------------------------------------------


async def cancel_request(model: Model) -> bool | None:
    row = await model.row(f"select id, tenant_id from monitoring_collect_requests where {OPEN} order by id")
    if row is None:
        return False
    await requests.cancel_request(model.pool, RequestRef(request_id=row["id"], tenant_id=row["tenant_id"]))


# --- batches -------------------------------------------------------------------------------------------------


async def any_batch(model: Model, states: str = OPEN_BATCH) -> BatchRef | None:
    row = await model.row(f"select id, tenant_id from scheduled_batches where {states} order by id")
    return None if row is None else BatchRef(batch_id=row["id"], tenant_id=row["tenant_id"])


async def pause_batch(model: Model) -> bool | None:
    given = await any_batch(model)
    if given is None:
        return False
    await batches.pause_batch(model.pool, given)


async def resume_batch(model: Model) -> bool | None:
    given = await any_batch(model, "status = 'paused'")
    if given is None:
        return False
    await batches.resume_batch(model.pool, given)


async def cancel_batch(model: Model) -> bool | None:
    given = await any_batch(model)
    if given is None:
        return False
    await batches.cancel_batch(model.pool, given)


async def next_batch(model: Model) -> bool | None:
    """A new slot of the day, over new questions and whatever an earlier one left."""
    world = model.world()
    count = f"select count(*) from scheduled_batches where tenant_id = $1 and {OPEN_BATCH}"
    if await model.pool.fetchval(count, world.tenant_id) < 3:
        await plan_more(model, world)


async def plan_more(model: Model, world: World) -> None:
    """A batch with two new questions at least."""
    model.questions[world.tenant_id] += [(await world.question()).id for _ in range(2)]
    await plan_batch(world)


async def plan_batch(world: World) -> int:
    """A planned batch of the tenant's plan."""
    batch: int = await world.pool.fetchval(
        "insert into scheduled_batches (tenant_id, brand_id, plan_id, business_date, slot, run_mode, collector_type,"
        " workflow_id, scheduled_for, cut_off_at) select tenant_id, brand_id, id,"
        " (now() at time zone time_zone)::date, 's' || n, run_mode, collector_type, 'batch/' || id || '/' || n, now(),"
        " now() + interval '6 hours' from monitoring_plans,"
        " (select count(*) as n from scheduled_batches) c where tenant_id = $1 order by id limit 1 returning id",
        world.tenant_id,
    )
    await materialise(world, batch, size=6)
    return batch


# --- operators -----------------------------------------------------------------------------------------------

SETTINGS: dict[str, tuple[Any, ...]] = {
    "cluster_per_minute": (4, 12, 14),
    "tenant_per_minute": (0, 3, 8, 9),
    "client_concurrency": (1, 2, 4),
    "client_queue_depth": (1, 3, 20),
    "platform_concurrency": (1, 2, 3),
    "platform_concurrency_scope": ("tenant", "tenant", "global"),
    "preempt_policy": ("all", "needed"),
    "max_preemptions": (0, 1, 3),
    "normal_floor": (0, 0.2, 0.5),
    "retry_low_water": (0, 5, 50),
    "rollout_percent": (0, 2, 2, 2, 100, 100, 100),
    "coordinator_shards": (1, 2),
}


async def change_setting(model: Model) -> bool | None:
    key = model.dice.choice(list(SETTINGS))
    value = model.dice.choice(SETTINGS[key])
    async with transaction(model.pool) as connection:
        await write_dispatch_setting(connection, key, value, actor="walk")
    model.note(f"{key}={value}")


def any_target(model: Model) -> PauseTarget:
    kind = model.dice.choice(list(PauseKind))
    desk = model.desk(connected=False)
    assert desk is not None
    return PauseTarget(
        kind,
        lane=model.dice.choice([Lane.HIGH, Lane.NORMAL, Lane.RETRY]) if kind is PauseKind.LANE else None,
        tenant_id=model.world().tenant_id if kind is PauseKind.TENANT else None,
        platform=model.dice.choice(PLATFORMS) if kind is PauseKind.PLATFORM else None,
        client_id=desk.id if kind is PauseKind.CLIENT else None,
    )


async def pause(model: Model) -> bool | None:
    target = any_target(model)
    async with transaction(model.pool) as connection:
        await pauses.pause(connection, target, drain=model.chance(0.5), actor="walk")
    model.note(f"{target.kind.value} {target.key}")


async def resume(model: Model) -> bool | None:
    """Everything that is paused."""
    for target in await paused_targets(model):
        async with transaction(model.pool) as connection:
            await pauses.resume(connection, target, actor="walk")


async def paused_targets(model: Model) -> list[PauseTarget]:
    lanes = await model.pool.fetchval("select value from dispatch_settings where key = 'paused_lanes'") or []
    found = [PauseTarget(PauseKind.LANE, lane=Lane(name)) for name in lanes]
    for row in await model.pool.fetch("select id from tenants where paused order by id"):
        found.append(PauseTarget(PauseKind.TENANT, tenant_id=row["id"]))
    for row in await model.pool.fetch("select platform_id from platform_settings where paused order by 1"):
        found.append(PauseTarget(PauseKind.PLATFORM, platform=row["platform_id"]))
    for row in await model.pool.fetch("select id from desktop_clients where paused order by id"):
        found.append(PauseTarget(PauseKind.CLIENT, client_id=row["id"]))
    return found


async def take_away(model: Model) -> bool | None:
    """An operator's force release."""
    row = await model.row(f"select id from desktop_tasks where {LIVE} order by id")
    if row is None:
        return False
    async with transaction(model.pool) as connection:
        await force_release(connection, UUID(str(row["id"])), actor="walk")


async def roll_back(model: Model) -> bool | None:
    """The emergency script: everything in flight goes to the legacy path."""
    await legacy_rollback.roll_back(model.pool, actor="walk")


async def edit_client(model: Model) -> bool | None:
    """Another number of slots, or a platform's login is broken, or mended."""
    desk = model.desk(connected=False)
    assert desk is not None
    sessions = {model.dice.choice(PLATFORMS): "login_required"} if model.chance(0.3) else {}
    await desk.world.set(
        "desktop_clients", desk.id, max_concurrent=model.dice.randint(1, 3), platform_sessions=sessions
    )


MOVES: Moves = {
    "click": (6, press),
    "click again": (0.7, press_again),
    "cancel request": (0.8, cancel_request),
    "pause batch": (0.6, pause_batch),
    "resume batch": (1.5, resume_batch),
    "cancel batch": (0.2, cancel_batch),
    "next batch": (2.5, next_batch),
    "setting": (1.5, change_setting),
    "pause": (0.5, pause),
    "resume": (2, resume),
    "force release": (0.6, take_away),
    "edit client": (0.7, edit_client),
    "rollback": (0.05, roll_back),
}
