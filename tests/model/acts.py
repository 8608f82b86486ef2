"""The moves that scenes are made of: like any move, but of one desktop, and with an aim."""

from domain.errors import GivewayError
from domain.hub_port import ConnectionEnd
from domain.messages import RequestRef
from store import requests
from store.database import transaction
from store.settings import write_dispatch_setting
from tests.model import desks, giving_way, people, server
from tests.model.state import OPEN, PLATFORMS, Desk, Model, Task
from tests.support.clicks import click
from tests.support.granting import grant

# Rounds until a desktop is as busy as it can be.
ROUNDS = 4

# --- getting there -------------------------------------------------------------------------------------------


async def set_to(key: str, value: object, model: Model) -> bool | None:
    async with transaction(model.pool) as connection:
        await write_dispatch_setting(connection, key, value, actor="walk")
    model.note(f"{key}={value}")


async def set_fuse(value: int, model: Model) -> bool | None:
    await model.pool.execute("update dispatch_fuses set value = $1 where key = 'cluster_per_minute'", value)


async def alone_there(desk: Desk, model: Model) -> bool | None:
    """The only desktop of its tenant."""
    for other in model.desks:
        if other.world is desk.world and other is not desk and other.epoch:
            await model.hub.disconnected([ConnectionEnd(other.id, other.epoch)])
            other.epoch = 0
    if not desk.epoch:
        await desks.connect(model, desk)


async def everybody(model: Model) -> bool | None:
    for desk in model.desks:
        if not desk.epoch:
            await desks.connect(model, desk)


async def make_ready(desk: Desk, model: Model) -> bool | None:
    """Nothing is paused, it is there and logged in, and a further request would be accepted."""
    await people.resume(model)
    await desk.world.set("desktop_clients", desk.id, platform_sessions={})
    for key, value in (("platform_concurrency", 3), ("tenant_per_minute", 9), ("rollout_percent", 100)):
        await set_to(key, value, model)
    if not desk.epoch:
        await desks.connect(model, desk)
    for number, row in enumerate(await open_requests(desk, model)):
        if number > 0 or model.chance(0.7):
            await cancel(model, row)


async def busy(desk: Desk, model: Model) -> bool | None:
    """Scheduled work runs in every slot, if that can be; what is high there is finished first."""
    for task in [task for task in desk.running if getattr(task, "lane", None) == "high"]:
        await finish(model, desk, task)
    for number in range(ROUNDS):
        if len(desk.running) >= desk.slots:
            break
        if number and not desk.running:
            await finish_elsewhere(desk, model)
        if not await waits(desk, model):
            await people.plan_more(model, desk.world)
        await server.minute(model)
        await server.run_round(model, await owner(desk, model))
        await take_all(desk, model)
    model.note(f"{len(desk.running)} of {desk.slots} run")


async def finish_elsewhere(desk: Desk, model: Model) -> None:
    """The tenant's other desktops hold the platforms: they come back and finish what they have."""
    for other in [each for each in model.desks if each.world is desk.world]:
        if not other.epoch:
            await desks.connect(model, other)
        other.waiting += await other.legacy.pull()
        await take_all(other, model)
        for task in [task for task in other.running if task.attempt_id is not None]:
            try:
                await finish(model, other, task)
            except GivewayError:
                continue


async def owner(desk: Desk, model: Model) -> int:
    """The coordinator that the tenant has now."""
    query = "select value from dispatch_settings where key = 'coordinator_shards'"
    return desk.world.tenant_id % (await model.pool.fetchval(query) or 1)


async def waits(desk: Desk, model: Model) -> bool:
    """Whether scheduled work of the tenant does."""
    query = (
        "select exists (select from monitoring_collect_tasks where tenant_id = $1 and status = 'pending'"
        " and active_task_id is null and dispatch_lane like 'normal%' and execution_owner = 'desktop_tasks')"
    )
    found: bool = await model.pool.fetchval(query, desk.world.tenant_id)
    return found


async def take_all(desk: Desk, model: Model) -> bool | None:
    """Lease what is queued there and start what has a slot."""
    query = "select id from desktop_tasks where target_client_id = $1 and status = 'queued' order by id"
    ids = [row["id"] for row in await model.pool.fetch(query, desk.id)]
    desk.waiting += await grant(model.hub, desk.hands.identity, desk.epoch, ids)
    for task in list(desk.waiting):
        try:
            await desks.begin(desk, task)
        except GivewayError as refusal:
            if refusal.code == "lease_lost":
                desk.forget(task)


async def click_on(desk: Desk, model: Model) -> bool | None:
    """One question that nobody is asking, on one platform, for this desktop."""
    query = (
        "select question_id from monitoring_collect_tasks where tenant_id = $1 and"
        " (active_task_id is not null or status = 'leased' or dispatch_lane = 'high')"
    )
    taken = {row[0] for row in await model.pool.fetch(query, desk.world.tenant_id)}
    chosen = model.one([each for each in model.questions[desk.world.tenant_id] if each not in taken])
    if chosen is None:
        await people.plan_more(model, desk.world)
        chosen = model.questions[desk.world.tenant_id][-1]
    await press(desk, model, [chosen], [model.dice.choice(PLATFORMS)])


async def click_on_everything(desk: Desk, model: Model) -> bool | None:
    await press(desk, model, model.questions[desk.world.tenant_id][:8], None)


async def press(desk: Desk, model: Model, questions: list[int], platforms: list[str] | None) -> None:
    done = await click(
        desk.world,
        question_ids=questions,
        platforms=platforms,
        preempt=True,
        target_client_id=desk.id,
        user_id=model.dice.randint(1, 10**6),
    )
    model.note(f"{done.outcome.value} {done.error_code or (done.answer and done.answer.interrupt_requested_count)}")


async def round_of(shard: int, model: Model) -> bool | None:
    model.note(str(await server.run_round(model, shard)))


# --- what becomes of it --------------------------------------------------------------------------------------


async def victim(desk: Desk, model: Model) -> Task:
    """Any that it runs and was told to stop."""
    standing = await giving_way.orders_standing(model)
    return next(task for task in desk.running if task.task_id in standing)


async def acknowledge(desk: Desk, older: int, model: Model) -> bool | None:
    task = await victim(desk, model)
    await giving_way.acknowledge(model, desk, task, await giving_way.generation_of(model, task) + older, holds=True)


async def acknowledge_again(desk: Desk, model: Model) -> bool | None:
    task = desk.past[-1]
    await giving_way.acknowledge(model, desk, task, await giving_way.generation_of(model, task), holds=True)


async def acknowledge_late(desk: Desk, model: Model) -> bool | None:
    """Of one that was taken away."""
    task = desk.running[-1]
    await giving_way.acknowledge(model, desk, task, await giving_way.generation_of(model, task), holds=False)


async def finish_first(desk: Desk, model: Model) -> bool | None:
    await finish(model, desk, await victim(desk, model))


async def finish_any(model: Model) -> bool | None:
    """Whatever desktop it runs on."""
    desk, task = await giving_way.told_to_stop(model)
    if desk is None or task is None or task.attempt_id is None:
        return False
    await finish(model, desk, task)


async def finish(model: Model, desk: Desk, task: Task) -> None:
    """Its result is ingested at once."""
    try:
        await desks.send_result(model, desk, task, succeeded=True)
        while model.queue:
            await server.ingest(model)
    finally:
        desk.forget(task)


async def stop_waiting(desk: Desk, model: Model) -> bool | None:
    """Both requests are over, and what ran stops."""
    await cancel_all(desk, model)
    for task in list(desk.running):
        await finish(model, desk, task)


async def open_requests(desk: Desk, model: Model) -> list[RequestRef]:
    rows = await model.pool.fetch(
        "select id, tenant_id from monitoring_collect_requests"
        f" where tenant_id = $1 and {OPEN} order by created_at, id",
        desk.world.tenant_id,
    )
    return [RequestRef(request_id=row["id"], tenant_id=row["tenant_id"]) for row in rows]


async def cancel_first(desk: Desk, model: Model) -> bool | None:
    found = await open_requests(desk, model)
    if found:
        await cancel(model, found[0])


async def cancel_all(desk: Desk, model: Model) -> bool | None:
    for ref in await open_requests(desk, model):
        await cancel(model, ref)


async def cancel(model: Model, ref: RequestRef) -> None:
    await requests.cancel_request(model.pool, ref)
