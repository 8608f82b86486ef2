"""`giveway reparse`: raw answers read again with this build's readers and rules (3-results §3.3)."""

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Iterator
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from commands.common import Json, console, print_json, running_settings

if TYPE_CHECKING:
    from activities.reparse import Reparse
    from activities.reparse_tally import Tally
    from store.database import Pool
    from store.reparse import Selection

INTERRUPTED = 130
LINE_SECONDS: Final = 5.0
"""Between two lines of progress in a log."""


def reparse(
    extractor_version: Annotated[
        str | None, typer.Option(help="The version to bring the facts to: this build's, and no other.")
    ] = None,
    tenant: Annotated[int | None, typer.Option(min=1, help="Only this tenant's runs.")] = None,
    brand: Annotated[int | None, typer.Option(min=1, help="Only this brand's.")] = None,
    from_day: Annotated[
        datetime | None, typer.Option("--from", formats=["%Y-%m-%d"], help="First business date.")
    ] = None,
    to_day: Annotated[datetime | None, typer.Option("--to", formats=["%Y-%m-%d"], help="Last business date.")] = None,
    platform: Annotated[str | None, typer.Option(help="Only answers of this platform.")] = None,
    only_failed: Annotated[bool, typer.Option("--only-failed", help="Only runs without an answer.")] = False,
    only_badcases: Annotated[bool, typer.Option("--only-badcases", help="Only runs with an open doubt.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Also what this version has read: after names or aliases have changed.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would change, with examples; write nothing.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many runs.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Processes that read and parse.")] = 1,
    json: Json = False,
) -> None:
    """Read raw answers again and rewrite the facts where today's rules say something else.

    Safe beside live ingest and to interrupt: started again, it goes on with what is left.
    """
    from domain.parsing.result import EXTRACTOR_VERSION
    from store.reparse import Selection

    if extractor_version not in (None, EXTRACTOR_VERSION):
        raise typer.BadParameter(f"this build reads answers as {EXTRACTOR_VERSION}, not {extractor_version!r}")
    if only_failed and only_badcases:
        raise typer.BadParameter("--only-failed and --only-badcases exclude each other")
    asked = Selection(tenant, brand, _day(from_day), _day(to_day), platform, only_failed, only_badcases, again)
    if asked.first_day and asked.last_day and asked.first_day > asked.last_day:
        raise typer.BadParameter("--from is later than --to")
    raise typer.Exit(asyncio.run(_run(asked, dry_run, limit, concurrency, json)))


def _day(moment: datetime | None) -> date | None:
    return None if moment is None else moment.date()


async def _run(asked: "Selection", dry_run: bool, limit: int | None, processes: int, json: bool) -> int:
    from activities.reparse import Reparse
    from commands.reparse_processes import judging
    from store.database import open_pool
    from store.raw_answers import RawAnswers

    settings = running_settings()
    shown = Console(stderr=True, highlight=False)
    logging.basicConfig(
        level=logging.WARNING, format="%(message)s", handlers=[RichHandler(console=shown, show_path=False)]
    )
    pool = await open_pool(settings.database_url, size=processes + 2, name="giveway-reparse")
    try:
        selection = await _resolved(pool, asked)
        with judging(processes) as judge:
            work = Reparse(pool, RawAnswers(settings.raw_store_url, create=False), judge=judge, dry_run=dry_run)
            started = time.monotonic()
            done = await _walk(work, selection, limit, processes, shown)
            seconds = time.monotonic() - started
    finally:
        await pool.close()
    _report(work.tally, done, dry_run, seconds, json)
    return INTERRUPTED if not done else int(work.tally.unparsed > 0)


async def _resolved(pool: "Pool", asked: "Selection") -> "Selection":
    """The selection with the brand's tenant; a name or id that nobody has is wrong usage."""
    from dataclasses import replace

    from store.reparse import has_platform, owner_of_brand

    if asked.platform is not None and not await has_platform(pool, asked.platform):
        raise typer.BadParameter(f"there is no platform {asked.platform!r}")
    if asked.brand_id is None:
        return asked
    owner = await owner_of_brand(pool, asked.brand_id)
    if owner is None or asked.tenant_id not in (None, owner):
        whose = "" if asked.tenant_id is None else f" of tenant {asked.tenant_id}"
        raise typer.BadParameter(f"there is no brand {asked.brand_id}{whose}")
    return replace(asked, tenant_id=owner)


async def _walk(work: "Reparse", selection: "Selection", limit: int | None, processes: int, shown: Console) -> bool:
    """Walk with a progress bar, or a line now and then where nobody watches a terminal.

    The first signal stops between two chunks, the second at once.
    """
    stop = _stop_on_signals(shown)
    columns = (
        TextColumn("reparse"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[changed]} changed"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=shown, disable=not shown.is_terminal) as progress:
        total = await work.count(selection, limit=limit)
        bar = progress.add_task("reparse", total=total, changed=0)
        due = time.monotonic()

        def show(tally: "Tally") -> None:
            nonlocal due
            done = tally.runs + tally.missing_raw
            progress.update(bar, completed=done, changed=tally.changed)
            if not shown.is_terminal and time.monotonic() >= due:
                due = time.monotonic() + LINE_SECONDS
                shown.print(f"reparse: {done} of {total} runs, {tally.changed} changed")

        # One chunk more than there are processes: its bodies come while the others are parsed.
        try:
            return await work.walk(selection, stop=stop, on_progress=show, limit=limit, at_once=processes + 1)
        except asyncio.CancelledError:
            return False


def _stop_on_signals(shown: Console) -> asyncio.Event:
    stop, loop, task = asyncio.Event(), asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def on_signal() -> None:
        if stop.is_set():
            task.cancel()
            return
        shown.print("stopping after the runs under way; once more stops at once")
        stop.set()

    # Only a program's main thread hears of signals.
    if threading.current_thread() is threading.main_thread():
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, on_signal)
    return stop


def _report(tally: "Tally", done: bool, dry_run: bool, seconds: float, json: bool) -> None:
    if json:
        print_json(_summary(tally, done, dry_run, seconds))
        return
    _print_counts(tally, dry_run, seconds)
    for change in tally.examples if dry_run else ():
        example = change.example()
        where = (
            f"run {example['run_id']}, brand {example['brand_id']}, {example['platform']}, {example['business_date']}"
        )
        console.print(f"  {escape(where)}: {escape('; '.join(example['changes']))}")
    for line in _advice(tally, done, dry_run):
        console.print(line)


def _summary(tally: "Tally", done: bool, dry_run: bool, seconds: float) -> dict[str, Any]:
    from domain.parsing.result import EXTRACTOR_VERSION

    summary = {
        "extractor_version": EXTRACTOR_VERSION,
        "dry_run": dry_run,
        "finished": done,
        **tally.summary(),
        "seconds": round(seconds, 3),
        "runs_per_second": round(tally.runs / seconds, 1) if seconds else None,
    }
    return {**summary, "examples": [each.example() for each in tally.examples]} if dry_run else summary


def _print_counts(tally: "Tally", dry_run: bool, seconds: float) -> None:
    table = Table("what", "runs", title="reparse, nothing written" if dry_run else "reparse")
    for name, count in tally.summary().items():
        table.add_row(name.replace("_", " "), str(count), style="" if count else "dim")
    console.print(table)
    console.print(f"{seconds:.1f} s, {tally.runs / max(seconds, 0.001):.0f} runs/s")


def _advice(tally: "Tally", done: bool, dry_run: bool) -> Iterator[str]:
    if not done:
        yield "interrupted: the same command goes on with what is left"
    if tally.missing_raw:
        yield "runs whose raw answer is gone stay as they are; is RAW_STORE_URL the one that ingest writes to?"
    if tally.unparsed:
        yield "[bold red]runs that our program fails on[/] stay as they are; the log says why"
    if dry_run and tally.changed:
        yield "without --dry-run the facts are written, and the figures of their days rebuilt"
