"""`giveway plan`: which plans there are, and running one now (1-dispatch §1.6)."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from commands.common import Json, console, print_json
from commands.connections import connect_processes, open_database

if TYPE_CHECKING:
    from store.catalog import Record
    from store.database import Pool

app = typer.Typer(no_args_is_help=True, help="Plans: when which questions are asked.")

PlanId = Annotated[int, typer.Argument(min=1, help="The plan's id.")]
Tenant = Annotated[int | None, typer.Option(min=1, help="Only of this tenant.")]
AfterId = Annotated[int, typer.Option("--after", min=0, help="Go on after this id.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")]


@app.command("list")
def list_plans(tenant: Tenant = None, after: AfterId = 0, limit: Limit = 50, json: Json = False) -> None:
    """Plans by id, those that are off too."""
    rows = asyncio.run(_list(tenant, after, limit))
    if json:
        print_json({"plans": rows})
        return
    table = Table("plan", "tenant", "brand", "name", "cadence", "zone", "date", "next run")
    for row in rows:
        table.add_row(
            *(str(row[name]) for name in ("id", "tenant_id", "brand_id", "name", "cadence", "time_zone")),
            row["business_date_rule"],
            "off" if row["next_run_at"] is None else f"{row['next_run_at']:%Y-%m-%d %H:%M %Z}",
        )
    console.print(table)


async def _list(tenant: int | None, after: int, limit: int) -> list[dict[str, Any]]:
    from store import batch_reads

    async with open_database("plan") as pool:
        return [dict(row) for row in await batch_reads.list_all_plans(pool, tenant, after, limit)]


@app.command()
def run(plan_id: PlanId, json: Json = False) -> None:
    """Run a plan now, besides its regular times; `giveway batch run` also waits for the batch it becomes."""
    triggered = asyncio.run(_run(plan_id))
    if json:
        print_json({"plan_id": plan_id, "scan_triggered": triggered})
    elif triggered:
        console.print(f"plan {plan_id} is due, and a scan was started")
    else:
        console.print(f"plan {plan_id} is due; Temporal is away, so it runs at the first scan after it is back")


async def _run(plan_id: int) -> bool:
    async with open_database("plan") as pool:
        return await run_now(pool, plan_id)


async def run_now(pool: "Pool", plan_id: int) -> bool:
    """Make the plan due and have a scan started; whether Temporal took that. NotFound; Conflict when it is off."""
    from domain.errors import DispatchUnavailable
    from store.catalog import Reach
    from store.plan_catalog import run_plan_now

    plan = await find_plan(pool, plan_id)
    await run_plan_now(pool, Reach(plan["tenant_id"], (plan["workspace_id"],)), plan_id)
    try:
        await (await connect_processes()).scan_plans()
    except DispatchUnavailable:
        return False
    return True


async def find_plan(pool: "Pool", plan_id: int) -> "Record":
    """The plan of whichever tenant; NotFound."""
    from domain.errors import NotFound
    from store import batch_reads

    found = await batch_reads.find_any_plan(pool, plan_id)
    if found is None:
        raise NotFound(f"no plan {plan_id}; `giveway plan list` shows them")
    return found
