"""`giveway dlq`: what was given up, in both dead-letter queues, and sending it on its way again (3-results §3.2)."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import Progress

from commands.common import Json, console, print_json, running_settings

if TYPE_CHECKING:
    from commands.dead_letter_entries import Entry, Found
    from commands.dead_letter_office import Advance, Chosen, Office, Tally

app = typer.Typer(no_args_is_help=True, help="Dead letters: results that ingest gave up, days that can't be rebuilt.")

T = TypeVar("T")


class Queue(StrEnum):
    """The two dead-letter queues."""

    INGEST = "ingest"
    PROJECTION = "projection"


OneQueue = Annotated[Queue | None, typer.Option("--queue", help="Only this one; without it both.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Ids, or message ids, of `giveway dlq list`.")]
Every = Annotated[bool, typer.Option("--all", help="Every letter.")]
Reason = Annotated[str | None, typer.Option("--reason", help="With --all: those whose reason has this text in it.")]


@app.command("list")
def list_letters(
    queue: OneQueue = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many to show.")] = 50,
    newest: Annotated[bool, typer.Option("--newest", help="The newest instead of the oldest.")] = False,
    json: Json = False,
) -> None:
    """Dead letters with their reasons, the oldest first. Nothing is taken from the queues."""
    from commands.dead_letter_views import row, table

    letters = _with_office(lambda office: _entries(office, queue))
    numbered = list(enumerate(letters, start=1))
    shown = numbered[-limit:][::-1] if newest else numbered[:limit]
    if json:
        print_json({"total": len(letters), "letters": [row(number, entry) for number, entry in shown]})
        return
    if not letters:
        console.print("no dead letters")
        return
    console.print(table(shown))
    console.print(f"{len(shown)} of {len(letters)} dead letters; `giveway dlq show ID`, then `giveway dlq replay ID`")


@app.command()
def show(
    letter: Annotated[str, typer.Argument(metavar="ID", help="An id, or a message id, of `giveway dlq list`.")],
    raw: Annotated[Path | None, typer.Option("--raw", help="Also write the whole body to this file.")] = None,
    json: Json = False,
) -> None:
    """One dead letter: reason, headers, message, and the begin of its body."""
    from commands.dead_letter_views import body_of, details, facts

    found = _with_office(lambda office: office.find(letter))
    if raw is not None:
        _write_body(found, raw)
    if json:
        print_json(details(found))
        return
    console.print(facts(found))
    if found.letter is not None:
        console.print(body_of(found.letter.body)[0], markup=False, soft_wrap=True)
    if found.copies > 1:
        console.print(f"{found.copies} letters have this name; the first is shown")


def _write_body(found: "Found", path: Path) -> None:
    if found.letter is None:
        raise typer.BadParameter("a brand-day has no body to write to a file", param_hint="--raw")
    try:
        path.write_bytes(found.letter.body)
    except OSError as error:
        raise typer.BadParameter(f"the body cannot be written there: {error}", param_hint="--raw") from error


@app.command()
def replay(
    ids: Ids = None, every: Every = False, reason: Reason = None, queue: OneQueue = None, json: Json = False
) -> None:
    """Send letters to their shard again, and have parked days rebuilt. Repeating it changes nothing twice."""
    chosen = _chosen(ids, every, reason, queue)
    tally = _with_office(lambda office: _replayed(office, chosen, queue, quiet=json))
    _report(tally, "replayed", ids, json)


@app.command()
def drop(
    ids: Ids = None,
    every: Every = False,
    reason: Reason = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: what is dropped is gone.")] = False,
    json: Json = False,
) -> None:
    """Throw dead letters of ingest away, audited. Their attempts stay failed."""
    chosen = _chosen(ids, every, reason, Queue.INGEST)
    if not yes and not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to confirm on; say --yes")
    if not yes:
        typer.confirm("A dropped result cannot be had again. Drop?", abort=True)

    async def run(office: "Office") -> "Tally":
        with _progress("dropping", quiet=json) as advance:
            return await office.drop_ingest(chosen, advance)

    _report(_with_office(run), "dropped", ids, json)


def _chosen(ids: list[str] | None, every: bool, reason: str | None, queue: Queue | None) -> "Chosen":
    """Which letters the options mean; wrong usage where they mean none, or everything by accident."""
    if bool(ids) == every:
        raise typer.BadParameter("name the letters, or say --all")
    if reason is not None and not every:
        raise typer.BadParameter("--reason goes with --all")
    names, text = set(ids or []), (reason or "").casefold()

    def chosen(entry: "Entry") -> bool:
        if queue is not None and entry.queue != queue:
            return False
        return text in entry.reason.casefold() if every else not names.isdisjoint(entry.names)

    return chosen


async def _entries(office: "Office", queue: Queue | None) -> "list[Entry]":
    from commands.dead_letter_entries import age

    entries: list[Entry] = []
    if queue is not Queue.PROJECTION:
        entries += await office.ingest_entries()
    if queue is not Queue.INGEST and (office.has_database or queue is Queue.PROJECTION):
        entries += await office.projection_entries()
    return sorted(entries, key=age)


async def _replayed(office: "Office", chosen: "Chosen", queue: Queue | None, *, quiet: bool) -> "Tally":
    from commands.dead_letter_office import Tally

    tally = Tally()
    if queue is not Queue.PROJECTION:
        with _progress("replaying", quiet=quiet) as advance:
            tally = await office.replay_ingest(chosen, advance)
    if queue is not Queue.INGEST:
        tally.add(await office.replay_projections(chosen))
    return tally


def _report(tally: "Tally", done: str, ids: list[str] | None, json: bool) -> None:
    """Say what was done, and end with 1 if anything that was asked for was not."""
    unknown = sorted(set(ids or []) - tally.matched)
    if json:
        print_json({done: tally.done, "left": tally.left, "unknown": unknown})
    else:
        console.print(f"{done} {tally.done} dead letters")
        for name, hindrance in tally.left.items():
            console.print(f"{name} is still there: {hindrance}", markup=False)
        for name in unknown:
            console.print(f"there is no dead letter {name}; `giveway dlq list` shows those that are", markup=False)
    raise typer.Exit(1 if tally.left or unknown else 0)


@contextmanager
def _progress(doing: str, *, quiet: bool) -> "Iterator[Advance]":
    """A bar on stderr that counts the letters looked at; nothing with `--json`."""
    with Progress(console=Console(stderr=True), transient=True, disable=quiet) as shown:
        bar = shown.add_task(doing, total=None)
        yield lambda looked, total: shown.update(bar, completed=looked, total=total)


def _with_office(work: "Callable[[Office], Coroutine[Any, Any, T]]") -> T:
    from commands.dead_letter_office import open_office

    async def run() -> T:
        async with open_office(running_settings()) as office:
            return await work(office)

    return asyncio.run(run())
