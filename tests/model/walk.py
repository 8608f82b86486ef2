"""A walk: random steps with every invariant checked after each, then an end at which nothing may be stuck."""

import random
import traceback
from collections import Counter
from dataclasses import dataclass, field

from domain.errors import GivewayError
from domain.messages import BatchRef, RequestRef
from store import batches, requests
from store.database import Pool
from tests.model import desks, giving_way, people, scenes, server
from tests.model.invariants import check
from tests.model.state import LIVE, OPEN, OPEN_BATCH, Desk, Model, Move, prepare
from tests.support.granting import grant

MOVES = {**desks.MOVES, **giving_way.MOVES, **people.MOVES, **server.MOVES}
# Desktops beat every two seconds; a step takes some milliseconds.
STEPS_A_BEAT = 50
SHOWN = 40
# How often a scene begins, and how often its next move comes before a random one.
SCENE, NEXT_OF_SCENE = 0.08, 0.7
# Rounds of the drain; a task may fail twice before it ends, behind windows that free once a round.
MOST_ROUNDS = 80


@dataclass(slots=True)
class Outcome:
    """What a walk was: its steps by name, what became of orders to stop, and why it failed, if it did."""

    seed: int
    taken: Counter[str] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)
    failure: str | None = None

    @property
    def steps(self) -> int:
        return self.taken.total()


async def walk(pool: Pool, seed: int, steps: int) -> Outcome:
    """Walk on an empty database. The same seed and steps take the same way again."""
    outcome = Outcome(seed)
    model = await prepare(pool, random.Random(seed))
    outcome.happened = model.happened
    try:
        await begin(model)
        for number in range(steps):
            if number % STEPS_A_BEAT == 0:
                await desks.send_beat(model, [desk for desk in model.desks if desk.epoch])
            outcome.taken[await step(model)] += 1
        await drain(model)
    except Exception as error:
        outcome.failure = explain(seed, steps, model, error)
    return outcome


async def begin(model: Model) -> None:
    """Each tenant has a batch; then everything that a run must have seen, once."""
    for world in model.worlds:
        await people.plan_batch(world)
    for name, scripted in scenes.prologue(model):
        await perform(model, f"prologue: {name}", scripted)
        await check(model)


def explain(seed: int, steps: int, model: Model, error: Exception) -> str:
    """How to see it again, the way there, and what was broken."""
    shown = "\n  ".join(model.history[-SHOWN:])
    where = "".join(traceback.format_exception(error)[-6:])
    again = f"GIVEWAY_SEED={seed} GIVEWAY_WALK_STEPS={steps} python -m pytest tests/model"
    return f"{again}\nafter {len(model.history)} steps, the last:\n  {shown}\n{where}"


async def step(model: Model) -> str:
    """One move, then every invariant; a refusal that has a code of its own is an outcome like another."""
    name = await move(model)
    while name is None:
        name = await move(model)
    await check(model)
    return name


async def move(model: Model) -> str | None:
    """The next of a scene, or any move; None if it found nothing to do."""
    if not model.script and model.chance(SCENE):
        model.script += scenes.any_scene(model)
    if model.script and model.chance(NEXT_OF_SCENE):
        name, scripted = model.script.popleft()
        return "scene" if await perform(model, f"scene: {name}", scripted) else None
    names = list(MOVES)
    name = model.dice.choices(names, [MOVES[each][0] for each in names])[0]
    return name if await perform(model, name, MOVES[name][1]) else None


async def perform(model: Model, name: str, given: Move) -> bool:
    """Make the move; False if it found nothing to do."""
    model.history.append(name)
    try:
        if await given(model) is False:
            del model.history[-1]
            return False
    except GivewayError as refusal:
        if refusal.http_status >= 500:
            raise
        model.note(f"({refusal.code})")
    return True


# --- the end -------------------------------------------------------------------------------------------------


async def drain(model: Model) -> None:
    """With everybody there and willing, all work ends: nothing was lost or is stuck."""
    model.history.append("drain")
    await undo_orders(model)
    for number in range(MOST_ROUNDS):
        model.history.append(f"drain {number}")
        await work_through(model)
        await check(model)
        if not await left(model):
            break
    assert not (stuck := await left(model)), f"stuck: {stuck}"
    await server.reconcile(model)


async def undo_orders(model: Model) -> None:
    """No pauses, the usual settings, and everybody logged in; what desktops have forgotten is over."""
    await people.resume(model)
    await model.pool.execute("delete from dispatch_settings where key not in ('aging_wait_seconds', 'rollout_percent')")
    await model.pool.execute("delete from dispatch_fuses")
    await model.pool.execute("update desktop_clients set platform_sessions = '{}'")
    for row in await model.pool.fetch(
        "select id, tenant_id from scheduled_batches where status = 'paused' order by id"
    ):
        await batches.resume_batch(model.pool, BatchRef(batch_id=row["id"], tenant_id=row["tenant_id"]))
    await model.pool.execute(
        f"update desktop_tasks set lease_expires_at = now() where {LIVE} and lease_expires_at is not null"
    )
    await model.pool.execute("update monitoring_collect_tasks set lease_expires_at = now() where status = 'leased'")
    await server.offers_run_out(model)


async def work_through(model: Model) -> None:
    """Everybody connects, whatever there is is dispatched, run and ingested, and workflows end what is over."""
    for desk in model.desks:
        await restart(model, desk)
    await server.sweep_all(model)
    await server.minute(model)
    for shard in range(len(model.coordinators)):
        while await server.run_round(model, shard):
            pass
    for desk in model.desks:
        await run_all(model, desk)
    while model.queue:
        await server.ingest(model)
    await end_what_is_over(model)


async def restart(model: Model, desk: Desk) -> None:
    """Without a memory of what it held."""
    desk.waiting, desk.running, desk.past = [], [], []
    await desks.connect(model, desk)


async def run_all(model: Model, desk: Desk) -> None:
    """Take, start and finish what it gets; what has no slot now waits for the next time."""
    rows = await model.pool.fetch(
        "select id from desktop_tasks where target_client_id = $1 and status = 'queued'", desk.id
    )
    desk.waiting += await grant(model.hub, desk.hands.identity, desk.epoch, [row["id"] for row in rows])
    desk.waiting += await desk.legacy.pull(10)
    for task in list(desk.waiting):
        try:
            await desks.begin(desk, task)
            await desks.send_result(model, desk, task, succeeded=True)
        except GivewayError:
            continue


async def end_what_is_over(model: Model) -> None:
    """What the workflows would do in the end."""
    for row in await model.pool.fetch(f"select id, tenant_id from scheduled_batches where {OPEN_BATCH} order by id"):
        await batches.finish_batch(model.pool, BatchRef(batch_id=row["id"], tenant_id=row["tenant_id"]))
    over = (
        f"select id, tenant_id from monitoring_collect_requests r where not {OPEN}"
        f" and (exists (select from desktop_tasks where interrupt_request_id = r.id and {LIVE})"
        " or exists (select from monitoring_collect_tasks where legacy_interrupt_request_id = r.id)) order by id"
    )
    for row in await model.pool.fetch(over):
        ref = RequestRef(request_id=row["id"], tenant_id=row["tenant_id"])
        await requests.withdraw_interrupts(model.pool, ref)


async def left(model: Model) -> dict[str, list[str]]:
    """What has not ended, by kind."""
    kinds = {
        "tasks": "select id::text from monitoring_collect_tasks where status in ('pending', 'leased', 'received')",
        "requests": f"select id::text from monitoring_collect_requests where {OPEN}",
        "batches": f"select id::text from scheduled_batches where {OPEN_BATCH} and status <> 'planned'",
        "yields": "select batch_id::text from batch_yields where resumed_at is null",
        "executions": f"select id::text from desktop_tasks where {LIVE}",
    }
    found = {kind: [row[0] for row in await model.pool.fetch(query)] for kind, query in kinds.items()}
    return {kind: ids for kind, ids in found.items() if ids}
