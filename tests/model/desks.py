"""What desktops do: late, twice, with something they no longer hold, or not at all."""

from collections.abc import Sequence
from uuid import UUID

from domain.desktop_calls import PulledTask, ResultCall
from domain.errors import LeaseLost
from domain.hub_port import ConnectionEnd, HeartbeatRecord
from domain.legacy import parse_task_id
from domain.phases import Phase
from domain.protocol import Heartbeat, HeldAttempt, Hello, TaskAvailable
from store import leases, legacy_leases, results
from store.legacy_leases import LegacyLease
from tests.model.budgets import check_start
from tests.model.state import Desk, Message, Model, Moves, Task
from tests.support.granting import grant


def is_legacy(task: Task) -> bool:
    return isinstance(task, PulledTask)


def lease_of(desk: Desk, task: Task, *, token: bool = True) -> leases.LeaseRef:
    return leases.LeaseRef(desk.hands.identity, UUID(task.task_id), task.lease_token if token else None)


def legacy_lease(desk: Desk, task: Task, *, token: bool = True) -> LegacyLease:
    number = parse_task_id(task.task_id)
    assert isinstance(number, int)
    return LegacyLease(desk.hands.identity, number, task.lease_token if token else None)


# --- getting work --------------------------------------------------------------------------------------------


async def take(model: Model) -> bool | None:
    """Hints arrive: leases, frames, `pushed_at`. A frame may be lost, or the hub die before it says it was written."""
    desk = await model.desk_with("select target_client_id from desktop_tasks where status = 'queued'")
    if desk is None:
        return False
    rows = await model.pool.fetch(
        "select id from desktop_tasks where target_client_id = $1 and status = 'queued' order by id",
        desk.id,
    )
    some = [row["id"] for row in rows if model.chance(0.8)]
    frames = await grant(model.hub, desk.hands.identity, desk.epoch, some)
    if not frames:
        return False
    arrived = [frame for frame in frames if model.chance(0.93)]
    desk.waiting += arrived
    if model.chance(0.9):
        await model.hub.pushed([UUID(frame.task_id) for frame in arrived])
    model.note(f"{len(arrived)} of {len(frames)}")


async def pull(model: Model) -> bool | None:
    """The legacy path: what stands on offer."""
    offers = "select target_client_id from monitoring_collect_tasks where legacy_offer_expires_at is not null"
    desk = await model.desk_with(offers)
    if desk is None:
        return False
    tasks = await desk.legacy.pull(model.dice.randint(1, 4))
    if not tasks:
        return False
    desk.waiting += [task for task in tasks if model.chance(0.95)]
    model.note(str(len(tasks)))


async def start(model: Model) -> bool | None:
    desk = model.one([desk for desk in model.desks if desk.waiting])
    task = model.one(desk.waiting + (desk.running if model.chance(0.1) else [])) if desk else None
    if desk is None or task is None:
        return False
    again = task in desk.running
    try:
        await begin(desk, task)
    except LeaseLost:
        desk.forget(task)
        raise
    if not again and model.alone:
        await check_start(model, desk.id)


async def begin(desk: Desk, task: Task) -> None:
    """Start it; NoSlot leaves it waiting."""
    if is_legacy(task):
        await legacy_leases.start(desk.world.pool, legacy_lease(desk, task))
    else:
        await leases.start(desk.world.pool, lease_of(desk, task))
    if task in desk.waiting:
        desk.waiting.remove(task)
        desk.running.append(task)


async def phase(model: Model) -> bool | None:
    """The next phase, which also extends the lease."""
    desk, task = running(model)
    if desk is None or task is None:
        return False
    try:
        if is_legacy(task):
            await legacy_leases.extend(model.pool, legacy_lease(desk, task))
        else:
            await leases.extend(model.pool, lease_of(desk, task), model.dice.choice(list(Phase)))
    except LeaseLost:
        if model.chance(0.7):
            desk.forget(task)
        raise


def running(model: Model) -> tuple[Desk | None, Task | None]:
    """Any desktop with anything it runs; sometimes with something that it had."""
    late = model.chance(0.08)
    desk = model.one([desk for desk in model.desks if (desk.past if late else desk.running)])
    return (None, None) if desk is None else (desk, model.one(desk.past if late else desk.running))


# --- results -------------------------------------------------------------------------------------------------


async def result(model: Model) -> bool | None:
    """Success or failure; sent again at times; the call may end between the publish and the mark."""
    desk, task = running(model)
    if desk is None or task is None or task.attempt_id is None:
        return False
    succeeded = model.chance(0.7)
    try:
        await send_result(model, desk, task, succeeded=succeeded, marked=model.chance(0.95))
    except LeaseLost:
        desk.forget(task)
        raise
    if model.chance(0.9):
        desk.forget(task)


async def send_result(model: Model, desk: Desk, task: Task, *, succeeded: bool, marked: bool = True) -> None:
    assert task.attempt_id is not None
    call = ResultCall(
        lease_token=task.lease_token or "",
        attempt_id=UUID(task.attempt_id),
        outcome="succeeded" if succeeded else "failed",
    )
    task_id = parse_task_id(task.task_id)
    assert task_id is not None
    target = await results.find_attempt_for_result(model.pool, desk.hands.identity, task_id, call)
    if target.duplicate:
        model.note("duplicate")
        return
    model.queue.append(Message(desk.world, task.attempt_id, succeeded))
    if marked:
        await results.mark_result_received(model.pool, target, {})


# --- the connection ------------------------------------------------------------------------------------------


async def beat(model: Model) -> bool | None:
    """A heartbeat, which may have left something out."""
    desk = model.desk()
    if desk is None:
        return False
    await send_beat(model, [desk], listed=0.85)


async def send_beat(model: Model, desks: Sequence[Desk], *, listed: float = 1.0) -> None:
    """Heartbeats of these desktops; what one no longer has to hold is dropped."""
    beats = []
    for desk in desks:
        held = [item for item in desk.held() if listed == 1 or model.chance(listed)]
        frame = Heartbeat(
            id="b",
            running=[item for item in held if item.phase is not None],
            queued=[item for item in held if item.phase is None],
        )
        beats.append(HeartbeatRecord(desk.id, desk.epoch, frame))
    gone = await model.hub.heartbeats(beats)
    for desk in desks:
        ended = {str(attempt) for attempt in gone.get(desk.id, ())}
        for task in [task for task in [*desk.waiting, *desk.running] if task.attempt_id in ended]:
            desk.forget(task)


async def disconnect(model: Model) -> bool | None:
    desk = model.desk()
    if desk is None:
        return False
    await model.hub.disconnected([ConnectionEnd(desk.id, desk.epoch)])
    desk.epoch = 0


async def fall_silent(model: Model) -> bool | None:
    """30 s pass without a word."""
    desk = model.desk(connected=False)
    if desk is None:
        return False
    await model.pool.execute(
        "update desktop_clients set last_heartbeat_at = now() - interval '60 seconds'"
        " where id = $1 and ($2 = 0 or connection_epoch = $2)",
        desk.id,
        desk.epoch,
    )
    desk.epoch = 0


async def come_back(model: Model) -> bool | None:
    """hello with what it holds; restarted without its memory at times, or naming what is not its own."""
    desk = model.one([desk for desk in model.desks if not desk.epoch]) or model.desk(connected=False)
    if desk is None:
        return False
    if model.chance(0.25):
        for task in [*desk.waiting, *desk.running]:
            desk.forget(task)
        model.note("restarted")
    other = model.one([other for other in model.desks if other is not desk])
    claims = other.held() if other is not None and model.chance(0.1) else []
    await connect(model, desk, claims)


async def connect(model: Model, desk: Desk, claims: Sequence[HeldAttempt] = ()) -> None:
    """hello and snapshot; the desktop obeys the verdicts, mostly."""
    held = [*desk.held(), *claims]
    seen = await highest_seen(model, desk)
    hello = Hello(id="h", held=held, max_concurrent=None, highest_generation=seen)
    desk.epoch = await model.hub.connected(desk.hands.identity, hello)
    content = await model.hub.snapshot(desk.hands.identity, desk.epoch, held, seen)
    valid = {verdict.attempt_id for verdict in content.held if verdict.valid}
    for task in [*desk.waiting, *desk.running]:
        if task.attempt_id not in valid and (task in desk.waiting or model.chance(0.8)):
            desk.forget(task)
    desk.waiting += [frame for frame in content.available if isinstance(frame, TaskAvailable) and frame.lease_token]


async def highest_seen(model: Model, desk: Desk) -> int:
    """The highest generation a desktop remembers: forgotten, an old one, or from before the database was restored."""
    query = "select interrupt_generation from tenants where id = $1"
    counter: int = await model.pool.fetchval(query, desk.world.tenant_id)
    return model.dice.choice([0, counter, counter, max(counter - 2, 0), counter + 3])


MOVES: Moves = {
    "take": (12, take),
    "pull": (8, pull),
    "start": (18, start),
    "phase": (3, phase),
    "result": (8, result),
    "beat": (2, beat),
    "disconnect": (1, disconnect),
    "fall silent": (0.7, fall_silent),
    "come back": (5, come_back),
}
