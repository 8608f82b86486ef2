"""`giveway tune`: retune the interrupt timeouts now instead of at the end of the week (dispatch §10.5)."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from commands.common import Json, console, print_json, running_settings

if TYPE_CHECKING:
    from domain.messages import TuneResult


def tune(
    json: Json = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")] = False,
) -> None:
    """Set each platform's interrupt timeouts from the last week's safe-point intervals; in force at once."""
    result = asyncio.run(_tune(dry_run))
    if json:
        print_json(result.model_dump())
    else:
        console.print(_table(result))


async def _tune(dry_run: bool) -> "TuneResult":
    from store.database import open_pool
    from store.tuning import tune_timeouts

    pool = await open_pool(running_settings().database_url, size=1, name="giveway-tune")
    try:
        return await tune_timeouts(pool, dry_run=dry_run, actor="giveway tune")
    finally:
        await pool.close()


def _table(result: "TuneResult") -> Table:
    title = "interrupt timeouts, dry run" if result.dry_run else "interrupt timeouts"
    table = Table("platform", "samples", "P95 ms", "soft/hard ms before", "after", "outcome", title=title)
    for each in result.platforms:
        p95 = "" if each.p95_ms is None else f"{each.p95_ms:.0f}"
        style = "bold yellow" if each.outcome == "tuned" else "dim"
        table.add_row(
            each.platform, str(each.samples), p95, _pair(each.before), _pair(each.after), each.outcome, style=style
        )
    return table


def _pair(timeouts: tuple[int | None, int | None]) -> str:
    """Both, or that the general settings hold."""
    return "general" if timeouts == (None, None) else "/".join("general" if ms is None else str(ms) for ms in timeouts)
