"""What the server does: rounds, sweeps, ingest, the effects of workflows, reconcile. Time passes by moved columns."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from activities.presence import SWEEPS
from domain.messages import BatchRef, DatabaseFixes, RequestRef
from store import aging, batches, requests
from store.database import transaction
from store.reconcile import reconcile_database
from tests.model.budgets import check_round, now
from tests.model.people import any_batch
from tests.model.state import LIVE, OPEN, Model, Moves
from tests.support.clicks import finish

Effect = Callable[[Any, RequestRef], Awaitable[Any]]

# What the presence sweeper would have done within a second, and a request's workflow at its end: no damage.
EXPECTED_OF_RECONCILE = frozenset({"unknown", "never_ingested", "legacy_leases", "interrupts"})


async def dispatch(model: Model) -> bool | None:
    """Bind and one round, by either coordinator; the one that owns nobody finds nothing."""
    shard = model.dice.randrange(len(model.coordinators))
    model.note(f"shard {shard}: {await run_round(model, shard)}")


async def run_round(model: Model, shard: int) -> int:
    name, epoch = f"coordinator/{shard}", model.epochs[shard]
    async with model.turns[shard]:
        await model.coordinators[shard].bind(name, epoch)
        since = await now(model)
        dispatched = (await model.coordinators[shard].round(name, epoch)).dispatched
    # Beside others, settings and loads have changed before one could look.
    if dispatched and model.alone:
        await check_round(model, since, shard)
    return dispatched


async def minute(model: Model) -> bool | None:
    """The windows of the last minute are over."""
    await shift(model, "dispatch_ledger", "at = at - interval '61 seconds'", "true", key="ctid")


async def shift(model: Model, table: str, change: str, state: str, *, key: str = "id") -> None:
    """Let time pass for the rows in this state. What somebody holds at this moment is left out: nobody waits for us."""
    await model.pool.execute(
        f"update {table} set {change} where {key} = any(array("
        f"select {key} from {table} where {state} for no key update skip locked)) and {state}"
    )


async def get_older(model: Model) -> bool | None:
    async with transaction(model.pool) as connection:
        await aging.age(connection)


# --- presence ------------------------------------------------------------------------------------------------


async def sweep(model: Model) -> bool | None:
    """One part of the sweeper's round."""
    name, part = model.dice.choice(SWEEPS)
    async with transaction(model.pool) as connection:
        model.note(f"{name}: {await part(connection)}")


async def sweep_all(model: Model) -> bool | None:
    for _, part in SWEEPS:
        async with transaction(model.pool) as connection:
            await part(connection)


async def lease_runs_out(model: Model) -> bool | None:
    """Of an execution task, or of a legacy task."""
    table, condition = model.dice.choice(
        [
            ("desktop_tasks", f"{LIVE} and lease_expires_at is not null and result_received_at is null"),
            ("monitoring_collect_tasks", "status = 'leased'"),
        ]
    )
    row = await model.row(f"select id from {table} where {condition} order by id")
    if row is None:
        return False
    await model.pool.execute(
        f"update {table} set lease_expires_at = now() - interval '1 second' where id = $1 and {condition}", row["id"]
    )


async def offers_run_out(model: Model) -> bool | None:
    past = "legacy_offer_expires_at = now() - interval '1 second'"
    await shift(model, "monitoring_collect_tasks", past, "legacy_offer_expires_at is not null")


# --- results -------------------------------------------------------------------------------------------------


async def ingest(model: Model) -> bool | None:
    """Any message, since shards overtake each other; delivered again at times."""
    message = model.one(model.queue)
    if message is None:
        return False
    if model.chance(0.85):
        model.queue.remove(message)
    await finish(message.world, message.attempt_id, succeeded=message.succeeded)


async def lose_queues(model: Model) -> bool | None:
    """The broker lost what it had confirmed, and nobody noticed for a quarter of an hour."""
    model.queue.clear()
    past = "result_received_at = now() - interval '1 hour'"
    await shift(model, "desktop_tasks", past, "result_received_at is not null")
    await shift(model, "desktop_task_attempts", past, "result_received_at is not null and ended_at is null")


# --- what workflows do ---------------------------------------------------------------------------------------


async def of_request(model: Model, effect: Effect, *, state: str = OPEN) -> None:
    row = await model.row(
        "select id, tenant_id, target_client_id, interrupt_generation from monitoring_collect_requests"
        f" where {state} order by id"
    )
    if row is None:
        return False
    ref = RequestRef(
        request_id=row["id"],
        tenant_id=row["tenant_id"],
        client_id=row["target_client_id"],
        generation=row["interrupt_generation"],
    )
    await effect(model.pool, ref)


async def ttl(model: Model) -> bool | None:
    await of_request(model, requests.expire_request)


async def hard_end(model: Model) -> bool | None:
    await of_request(model, requests.end_request)


async def hard_timeout(model: Model) -> bool | None:
    """With every timeout over."""
    await shift(
        model, "desktop_tasks", "interrupted_at = interrupted_at - interval '10 minutes'", "interrupted_at is not null"
    )
    await of_request(model, requests.force_release)


async def release_client(model: Model) -> bool | None:
    """A request's workflow heard that its client is lost."""
    row = await model.row(
        "select r.id, r.tenant_id, c.id as client from monitoring_collect_requests r"
        f" join desktop_clients c on c.id = r.target_client_id and c.lost_at is not null where r.{OPEN} order by r.id"
    )
    if row is None:
        return False
    await requests.release_client(
        model.pool, RequestRef(request_id=row["id"], tenant_id=row["tenant_id"], client_id=row["client"])
    )


async def withdraw(model: Model) -> bool | None:
    """A request is over: its workflow withdraws what it asked for."""
    await of_request(model, requests.withdraw_interrupts, state=f"not {OPEN}")


async def cut_off(model: Model) -> bool | None:
    given = await any_batch(model)
    if given is None:
        return False
    await batches.expire_batch(model.pool, given)


async def finish_batch(model: Model) -> bool | None:
    given = await any_batch(model)
    if given is None:
        return False
    await batches.finish_batch(model.pool, given)


async def rebalance(model: Model) -> bool | None:
    given, desk = await any_batch(model), model.desk(connected=False)
    if given is None or desk is None:
        return False
    mine = BatchRef(batch_id=given.batch_id, tenant_id=given.tenant_id, client_id=desk.id)
    await batches.rebalance_batch(model.pool, mine)


# --- reconcile -----------------------------------------------------------------------------------------------


async def reconcile(model: Model) -> bool | None:
    """Nothing is damaged, ever: what a run mends, the sweeper would have soon. The next one finds nothing."""
    done = await reconcile_database(model.pool)
    mended = {kind for kind, count in dict(done.fixed).items() if count}
    assert mended <= EXPECTED_OF_RECONCILE, f"reconcile found damage: {done.fixed!r}"
    assert done.found.failed == ()
    assert done.found.orphans_running == 0, "an execution task runs for nobody"
    if model.alone:
        again = await reconcile_database(model.pool)
        assert again.fixed == DatabaseFixes(), f"reconcile mended twice: {again.fixed!r}"
    model.note(",".join(sorted(mended)))


@pytest.fixture
def impatient_reconcile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage is damage at once: between two transactions there is none."""
    monkeypatch.setattr("store.reconcile_tasks.DAMAGE_SECONDS", 0)


MOVES: Moves = {
    "round": (14, dispatch),
    "minute": (3, minute),
    "aging": (1, get_older),
    "sweep": (3, sweep),
    "sweep all": (1.5, sweep_all),
    "lease runs out": (2, lease_runs_out),
    "offers run out": (0.5, offers_run_out),
    "ingest": (9, ingest),
    "queues lost": (0.3, lose_queues),
    "ttl": (0.5, ttl),
    "hard end": (0.4, hard_end),
    "hard timeout": (1.2, hard_timeout),
    "release client": (1, release_client),
    "withdraw": (1, withdraw),
    "cut-off": (0.3, cut_off),
    "finish batch": (1.2, finish_batch),
    "rebalance": (0.6, rebalance),
    "reconcile": (1, reconcile),
}
