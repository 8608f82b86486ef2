"""`giveway batch`: what scheduled batches are doing, and orders to them (1-dispatch §1.6)."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from commands.common import Json, console, print_json
from commands.connections import connect_processes, open_database
from commands.plan import PlanId, Tenant, find_plan, run_now

if TYPE_CHECKING:
    from domain.messages import BatchUpdate
    from store.database import Pool

app = typer.Typer(no_args_is_help=True, help="Scheduled batches: what they are doing, and orders to them.")

BatchId = Annotated[int, typer.Argument(min=1, help="The batch's id.")]
Status = Annotated[str | None, typer.Option(help="planned, running, paused, completed, cancelling or cancelled.")]
Before = Annotated[int | None, typer.Option(min=1, help="Go on before this id.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")]

ACTOR = "giveway batch"
POLL_SECONDS = 0.5
COUNTERS = ("expected_count", "completed_count", "failed_count", "skipped_count", "expired_count")

Batch = dict[str, Any]


@app.command("list")
def list_batches(
    tenant: Tenant = None, status: Status = None, before: Before = None, limit: Limit = 20, json: Json = False
) -> None:
    """Batches, newest first."""
    from typing import get_args

    from api.batches import BatchStatus

    if status is not None and status not in get_args(BatchStatus):
        raise typer.BadParameter(f"there is no status {status!r}; known: {', '.join(get_args(BatchStatus))}")
    found = asyncio.run(_list(tenant, status, before, limit))
    if json:
        print_json({"batches": found})
    else:
        console.print(_table(found))


async def _list(tenant: int | None, status: str | None, before: int | None, limit: int) -> list[Batch]:
    from store import batch_reads

    async with open_database("batch") as pool:
        return [dict(row) for row in await batch_reads.list_all_batches(pool, tenant, status, before, limit)]


def _table(found: list[Batch]) -> Table:
    counters = [name.removesuffix("_count") for name in COUNTERS]
    table = Table(box=None)
    for name in ("batch", "tenant", "brand", "day", "slot", "status"):
        table.add_column(name, no_wrap=True)
    for name in (*counters, "skipped slots"):
        table.add_column(name, justify="right")
    for row in found:
        named = [str(row[name]) for name in ("id", "tenant_id", "brand_id", "business_date", "slot", "status")]
        table.add_row(*named, *(str(row[name]) for name in COUNTERS), str(row["skipped_slots"]))
    return table


@app.command()
def show(batch_id: BatchId, json: Json = False) -> None:
    """One batch with what runs and what is held."""
    _print(asyncio.run(_show(batch_id)), json)


async def _show(batch_id: int) -> Batch:
    async with open_database("batch") as pool:
        return await _find(pool, batch_id)


async def _find(pool: "Pool", batch_id: int) -> Batch:
    from domain.errors import NotFound
    from store import batch_reads

    found = await batch_reads.find_any_batch(pool, batch_id)
    if found is None:
        raise NotFound(f"no batch {batch_id}; `giveway batch list` shows them")
    return dict(found)


def _print(batch: Batch, json: bool) -> None:
    if json:
        print_json(batch)
        return
    table = Table(show_header=False, box=None)
    for name, value in batch.items():
        if value is not None:
            table.add_row(name, str(value))
    console.print(table)


@app.command()
def pause(batch_id: BatchId, json: Json = False) -> None:
    """Dispatch nothing new of it until it is resumed; what runs finishes and counts."""
    from domain.messages import BatchUpdate

    _print(asyncio.run(_order(batch_id, BatchUpdate.PAUSE)), json)


@app.command()
def resume(batch_id: BatchId, json: Json = False) -> None:
    """Go on; what was held has the lane, priority and age that it had."""
    from domain.messages import BatchUpdate

    _print(asyncio.run(_order(batch_id, BatchUpdate.RESUME)), json)


@app.command()
def cancel(batch_id: BatchId, json: Json = False) -> None:
    """Skip what waits; what runs finishes and counts."""
    from domain.messages import BatchUpdate

    _print(asyncio.run(_order(batch_id, BatchUpdate.CANCEL)), json)


async def _order(batch_id: int, update: "BatchUpdate") -> Batch:
    from domain.errors import BatchOver
    from domain.messages import BatchOrder

    async with open_database("batch") as pool:
        batch = await _find(pool, batch_id)
        if batch["status"] in ("completed", "cancelled"):
            raise BatchOver(f"batch {batch_id} is {batch['status']} already")
        await (await connect_processes()).order_batch(batch["workflow_id"], update, BatchOrder(actor=ACTOR))
        return await _find(pool, batch_id)


@app.command()
def run(
    plan_id: PlanId,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for the batch to begin.")] = 75.0,
    json: Json = False,
) -> None:
    """Run a plan now and show the batch that it became."""
    _print(asyncio.run(_run(plan_id, wait)), json)


async def _run(plan_id: int, wait: float) -> Batch:
    from domain.errors import DispatchUnavailable
    from store import batch_reads

    async with open_database("batch") as pool:
        await find_plan(pool, plan_id)
        known = await batch_reads.newest_batch_of_plan(pool, plan_id, 0)
        # Without a scan of our own, the next regular one is at most a minute away.
        await run_now(pool, plan_id)
        begun = await _begun(pool, plan_id, 0 if known is None else known["id"], wait)
    if begun is None:
        raise DispatchUnavailable(f"plan {plan_id} is due and will run, but no worker has begun its batch yet")
    return begun


async def _begun(pool: "Pool", plan_id: int, after: int, wait: float) -> Batch | None:
    """The plan's batch after the given one, once its workflow has taken it up; None when that takes too long."""
    from store import batch_reads

    ends = asyncio.get_running_loop().time() + wait
    while True:
        found = await batch_reads.newest_batch_of_plan(pool, plan_id, after)
        if found is not None and found["started_at"] is not None:
            return await _find(pool, found["id"])
        if asyncio.get_running_loop().time() >= ends:
            return None
        await asyncio.sleep(POLL_SECONDS)
