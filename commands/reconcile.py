"""`giveway reconcile`: mend now what the schedule would mend within five minutes (1-dispatch §1.8)."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from commands.common import Json, console, print_json, running_settings

if TYPE_CHECKING:
    from domain.messages import ReconcileResult
    from settings import Settings

# Longer than a run's two activities with their retries take when something is wrong.
RUN_LENGTH = timedelta(minutes=15)


def reconcile(
    json: Json = False,
    direct: Annotated[
        bool, typer.Option("--direct", help="Mend the database from this process; Temporal is not asked.")
    ] = False,
    wait: Annotated[float, typer.Option(min=1, help="Seconds to wait for a worker to answer.")] = 120.0,
) -> None:
    """Find and mend damage now; prints what was mended, by kind. A second run mends nothing."""
    settings = running_settings()
    result = asyncio.run(_directly(settings) if direct else _by_workflow(settings, wait))
    if json:
        print_json({"fixed": result.by_kind(), "found": result.found.model_dump()})
    else:
        _print(result)
    raise typer.Exit(1 if result.found.failed else 0)


async def _directly(settings: "Settings") -> "ReconcileResult":
    from domain.messages import ReconcileResult
    from store.database import open_pool
    from store.reconcile import reconcile_database

    pool = await open_pool(settings.database_url, size=2, name="giveway-reconcile")
    try:
        done = await reconcile_database(pool)
    finally:
        await pool.close()
    return ReconcileResult(database=done.fixed, found=done.found)


async def _by_workflow(settings: "Settings", wait: float) -> "ReconcileResult":
    """A run of its own, or the one that another call started."""
    from temporalio.client import Client
    from temporalio.common import WorkflowIDConflictPolicy
    from temporalio.contrib.pydantic import pydantic_data_converter

    from domain.errors import DispatchUnavailable
    from domain.messages import PROCESS_QUEUE
    from workflows.reconcile import Reconcile

    try:
        async with asyncio.timeout(wait):
            client = await Client.connect(
                settings.temporal_address,
                namespace=settings.temporal_namespace,
                data_converter=pydantic_data_converter,
            )
            return await client.execute_workflow(
                Reconcile.run,
                id="reconcile/now",
                task_queue=PROCESS_QUEUE,
                execution_timeout=RUN_LENGTH,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                static_summary="reconcile, on demand",
            )
    except (TimeoutError, RuntimeError) as error:
        raise DispatchUnavailable(
            f"Temporal, or a worker, does not answer at {settings.temporal_address}"
            " (`giveway doctor` says what is missing); `giveway reconcile --direct` mends the database without them"
        ) from error


def _print(result: "ReconcileResult") -> None:
    table = Table("kind", "mended", title="reconcile")
    for kind, count in result.by_kind().items():
        table.add_row(kind, str(count), style="bold yellow" if count else "dim")
    console.print(table)
    found = result.found
    console.print(f"effects waiting for over a minute: {found.outbox_waiting}")
    console.print(f"execution tasks that run for nobody: {found.orphans_running}")
    if result.workflows is None:
        console.print("workflows and residents were not looked at: that takes Temporal")
    if found.failed:
        console.print(f"[bold red]could not be looked at:[/] {', '.join(found.failed)} (the log says why)")
