"""What desktops do about orders to stop: obey, late, twice, or with an older order than the last."""

from uuid import UUID

from domain.desktop_calls import CancelCall, InterruptAckCall
from domain.errors import StaleGeneration
from domain.legacy import parse_task_id
from domain.phases import Phase
from store import leases, legacy_leases
from tests.model import desks
from tests.model.state import Desk, Model, Moves, Task


async def give_way(model: Model) -> bool | None:
    """Acknowledge an interrupt: in order, stale, late, again, or without holding the task any more."""
    desk, task = await told_to_stop(model)
    if desk is None or task is None:
        return False
    generation = max(await generation_of(model, task) - model.dice.choice([0, 0, 0, 1]), 0)
    await acknowledge(model, desk, task, generation, holds=model.chance(0.75))


async def acknowledge(model: Model, desk: Desk, task: Task, generation: int, *, holds: bool) -> None:
    """The call, counted by what it was when it came; a refused one too."""
    stands = task.task_id in await orders_standing(model)
    kind = "in time" if stands else "late"
    if (task.task_id, generation) in model.acknowledged:
        kind = "again"
    model.acknowledged.add((task.task_id, generation))
    call = InterruptAckCall(
        lease_token=task.lease_token if holds else None,
        interrupt_generation=generation,
        phase=model.dice.choice(list(Phase)),
    )
    try:
        await send_acknowledgement(desk, task, call, holds=holds)
    except StaleGeneration:
        kind = "stale"
        raise
    finally:
        model.happened[f"acknowledged {kind}"] += not desks.is_legacy(task)
    if task in desk.running:
        desk.forget(task)


async def send_acknowledgement(desk: Desk, task: Task, call: InterruptAckCall, *, holds: bool) -> None:
    if desks.is_legacy(task):
        await legacy_leases.acknowledge_interrupt(desk.world.pool, desks.legacy_lease(desk, task, token=holds), call)
    else:
        await leases.acknowledge_interrupt(desk.world.pool, desk.hands.identity, UUID(task.task_id), call)


async def told_to_stop(model: Model) -> tuple[Desk | None, Task | None]:
    """Any desktop with something that it was told to stop; rarely one that was not told, or has stopped long ago."""
    told = await orders_standing(model)
    if model.chance(0.1):
        told = {task for task, _ in model.acknowledged}
        pairs = [(desk, task) for desk in model.desks for task in desk.past if task.task_id in told]
        return model.one(pairs) or (None, None)
    pairs = [(desk, task) for desk in model.desks for task in desk.running if task.task_id in told]
    return model.one(pairs) or (desks.running(model) if model.chance(0.2) else (None, None))


async def orders_standing(model: Model) -> set[str]:
    """Tasks that are asked to stop at this moment."""
    rows = await model.pool.fetch(
        "select id::text from desktop_tasks where control_flags ->> 'interrupt_requested' = 'true' union all"
        " select 'l-' || id from monitoring_collect_tasks where legacy_interrupt_request_id is not null"
    )
    return {row[0] for row in rows}


async def generation_of(model: Model, task: Task) -> int:
    """What the desktop was last told, as if every order had reached it."""
    number = parse_task_id(task.task_id)
    table = "desktop_tasks" if isinstance(number, UUID) else "monitoring_collect_tasks"
    found: int | None = await model.pool.fetchval(f"select interrupt_generation from {table} where id = $1", number)
    return found or 0


async def give_back(model: Model) -> bool | None:
    """Something that waits, rarely something that runs."""
    desk = model.desk()
    task = model.one(desk.running if model.chance(0.2) else desk.waiting) if desk else None
    if desk is None or task is None:
        return False
    call = CancelCall(
        lease_token=task.lease_token or "", reason="busy", interrupt_generation=await generation_of(model, task)
    )
    desk.forget(task)
    if desks.is_legacy(task):
        await legacy_leases.cancel(model.pool, desks.legacy_lease(desk, task), call)
    else:
        await leases.cancel(model.pool, desks.lease_of(desk, task), call)


MOVES: Moves = {
    "give way": (7, give_way),
    "give back": (1.5, give_back),
}
