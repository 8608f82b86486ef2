"""`giveway explain`: why a task is where it is, and what would move it on."""

import asyncio
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from commands.common import Json, console, print_json, running_settings

if TYPE_CHECKING:
    from store.explain import HeldBy, TaskExplanation


def explain(
    task: Annotated[int, typer.Argument(metavar="TASK_ID", help="The business task's number.", min=1)],
    json: Json = False,
) -> None:
    """Why a task waits: the check that keeps it with its numbers, its position, an estimate; or what became of it."""
    found = asyncio.run(_read(task))
    if json:
        print_json(asdict(found))
        return
    reason = "" if found.reason == found.state.value else f" ({found.reason})"
    console.print(f"[bold]{found.state.value}[/]{reason}: {escape(found.sentence)}")
    console.print(_facts(found))
    if found.waiting is not None and found.waiting.steps:
        console.print(_steps(found))


async def _read(task: int) -> "TaskExplanation":
    from store.database import open_pool
    from store.explain import explain_task

    pool = await open_pool(running_settings().database_url, size=1, name="giveway-explain")
    try:
        return await explain_task(pool, task, None)
    finally:
        await pool.close()


def _facts(found: "TaskExplanation") -> Table:
    table = Table(box=None, show_header=False)
    table.add_row("tenant, platform, day", f"{found.tenant_id}, {found.platform}, {found.business_date}")
    table.add_row("lane", f"{found.lane}, priority {found.priority}, by {found.path}")
    if found.finished_at is None:
        table.add_row("waits since", f"{found.enqueued_at:%Y-%m-%d %H:%M:%S} ({_span(found.waited_seconds)})")
    else:
        table.add_row("finished", f"{found.finished_at:%Y-%m-%d %H:%M:%S}")
    table.add_row("failures", f"{found.attempts_counted} of {found.attempts_allowed} counted attempts")
    table.add_row("gave way", f"{found.preemptions} times")
    if found.waiting is not None:
        estimate = found.waiting.estimate_seconds
        table.add_row("before it", str(found.waiting.position))
        table.add_row("estimate", "nobody can know" if estimate is None else f"in {_span(estimate)}")
    if found.held is not None:
        table.add_row("desktop", _desktop(found.held))
        if found.held.execution_id is not None:
            table.add_row("execution task", str(found.held.execution_id))
    if found.last_error:
        table.add_row("last error", escape(found.last_error))
    return table


def _desktop(held: "HeldBy") -> str:
    phase = f", in {held.phase}" if held.phase else ""
    yields = f", giving way to {held.giving_way_to}" if held.giving_way_to else ""
    return f"{escape(held.client_name)} ({held.client_id}) since {held.since:%H:%M:%S}{phase}{yields}"


def _steps(found: "TaskExplanation") -> Table:
    assert found.waiting is not None
    where = "" if found.waiting.client_id is None else f"on desktop {found.waiting.client_id}"
    table = Table(box=None, title=where or None, title_justify="left")
    for name in ("check", "", "used", "limit"):
        table.add_column(name)
    for step in found.waiting.steps:
        numbers = ["" if value is None else str(value) for value in (step.used, step.limit)]
        table.add_row(step.name, "passes" if step.passed else "[bold]keeps it[/]", *numbers)
    return table


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
