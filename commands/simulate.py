"""`giveway simulate`: a day of a large fleet in virtual time, with the dispatcher's own rules."""

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from commands.common import Json, console, print_json


def simulate(
    clients: Annotated[int, typer.Option(help="Desktops.")] = 50_000,
    tenants: Annotated[int, typer.Option(help="Tenants; the desktops are spread over them.")] = 1_000,
    hours: Annotated[float, typer.Option(help="Length of the run; it begins at --start.")] = 24.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same day.")] = 1,
    start: Annotated[float, typer.Option(help="Hour of the day at which plans become due.")] = 8.0,
    batch_minutes: Annotated[float, typer.Option(help="Plans are due spread over so long.")] = 60.0,
    questions: Annotated[float, typer.Option(help="Questions of a plan, median; each on 5 platforms.")] = 40.0,
    clicks: Annotated[float, typer.Option(help="Collect-now requests a tenant and working day (8–18 h).")] = 6.0,
    click_questions: Annotated[float, typer.Option(help="Questions of a collect-now request, on average.")] = 2.0,
    absences: Annotated[float, typer.Option(help="How often a desktop goes away in a day.")] = 1.0,
    away_minutes: Annotated[float, typer.Option(help="For how long, on average.")] = 20.0,
    failures: Annotated[float, typer.Option(help="Share of attempts that fail.")] = 0.02,
    hangs: Annotated[float, typer.Option(help="Share of attempts that hang until they are stopped.")] = 0.001,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A dispatch setting, key=value; repeat.")] = None,
    fuse: Annotated[list[str] | None, typer.Option("--fuse", help="A fuse, key=value; repeat.")] = None,
    coordinators: Annotated[int, typer.Option(min=1, help="How many share the tenants.")] = 1,
    round_ms: Annotated[float, typer.Option(help="A coordinator's round takes so long in all events,")] = 10.0,
    desktop_us: Annotated[float, typer.Option(help="and for each desktop of its tenants,")] = 10.0,
    pick_us: Annotated[float, typer.Option(help="and for each task that it dispatches.")] = 125.0,
    accept_ms: Annotated[float, typer.Option(help="From a click to its accept, as `bench collect-now` shows.")] = 65.0,
    push_ms: Annotated[float, typer.Option(help="From a commit to its frames at the desktops.")] = 15.0,
    json: Json = False,
) -> None:
    """Play a day of the fleet in virtual time. Exit code 1 if a task was lost or doubled, or a budget passed."""
    from simulation.day import Day
    from simulation.load import Machine, check_load
    from simulation.report import report, sound
    from simulation.rules import read_rules

    load = check_load(
        {
            "clients": clients,
            "tenants": tenants,
            "hours": hours,
            "seed": seed,
            "start": start,
            "batch_minutes": batch_minutes,
            "questions": questions,
            "clicks": clicks,
            "click_questions": click_questions,
            "absences": absences,
            "away_minutes": away_minutes,
            "failures": failures,
            "hangs": hangs,
        }
    )
    settings = read_rules([f"coordinator_shards={coordinators}", *(set_ or [])], fuse or [])
    cpu, wall = time.process_time(), time.perf_counter()
    day = Day(load, settings, Machine(round_ms, desktop_us, pick_us, accept_ms, push_ms))
    with _progress() as progress:
        bar = progress.add_task(f"{clients:,} desktops, {tenants:,} tenants", total=1.0)
        day.run(lambda share: progress.update(bar, completed=share))
    figures = report(day, time.process_time() - cpu, time.perf_counter() - wall)
    _show(figures)
    if json:
        print_json(figures)
    if not sound(figures):
        raise typer.Exit(1)


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


def _show(figures: Mapping[str, Any]) -> None:
    console.print(_latencies(figures))
    console.print(_summary(figures))


def _latencies(figures: Mapping[str, Any]) -> Table:
    table = Table(title="Waits", title_justify="left")
    for name in ("", "P50", "P95", "P99", "max", "number"):
        table.add_column(name, justify="left" if not name else "right")
    rows = {f"first dispatch, {lane}": row for lane, row in figures["first_dispatch_ms"].items()}
    rows |= {f"click {name.replace('_', ' ')}": row for name, row in figures["click_ms"].items()}
    rows["order to stop, to the safe point"] = figures["preemption"]["order_to_stop_ms"]
    for name, row in rows.items():
        times = [_duration(row[share]) if share in row else "–" for share in ("p50", "p95", "p99", "max")]
        table.add_row(name, *times, f"{row['n']:,}")
    return table


def _summary(figures: Mapping[str, Any]) -> Table:
    table = Table(show_header=False)
    tasks, preemption, cluster = figures["tasks"], figures["preemption"], figures["budgets"]["cluster"]
    table.add_row("tasks", _counts(tasks))
    table.add_row("requests", _counts(figures["clicks"]))
    table.add_row("preemption", _counts({name: n for name, n in preemption.items() if isinstance(n, int | float)}))
    table.add_row("cluster's minute", _counts(cluster))
    table.add_row("refusals", _counts(figures["budgets"]["refusals"]))
    table.add_row("tenants", _counts(figures["fairness"]))
    table.add_row("budgets passed", _counts(figures["violations"]) or "none")
    table.add_row("cost", _counts(figures["cost"]))
    return table


def _counts(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in values.items() if value is not None)


def _duration(ms: float) -> str:
    """As people say it."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 120_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms / 60_000:.0f} min" if ms < 7_200_000 else f"{ms / 3_600_000:.1f} h"
