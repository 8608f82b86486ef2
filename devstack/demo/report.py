"""What the demo prints at its end: tables for people, one JSON object for machines."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from desktop.events import DesktopEvent


def gave_way_table(events: Sequence[DesktopEvent], names: dict[str, str]) -> Table:
    """Who gave way, where, at which generation."""
    table = Table(title="Who gave way", title_justify="left")
    for column in ("desktop", "task", "in phase", "at safe point", "generation", "since last safe point"):
        table.add_column(column)
    for event in events:
        table.add_row(
            names.get(event.client_id, event.client_id),
            (event.task_id or "")[:13] + "…",
            str(event.phase or "—"),
            str(event.safe_point or "—"),
            str(event.generation),
            f"{event.interval_ms or 0:.0f} ms",
        )
    return table


def visibility_table(overview: dict[str, Any], platforms: Sequence[dict[str, Any]], brand: str) -> Table:
    """How visible the brand is by platform; a missing answer is missing, not a zero."""
    table = Table(title=f"Visibility of {brand} today", title_justify="left")
    table.add_column("platform")
    for column in ("answers", "mentioned", "rate", "position", "share of voice", "citations", "own"):
        table.add_column(column, justify="right")
    for row in platforms:
        if row["visibility"] is None:
            table.add_row(row["name"], "not supported")
        else:
            table.add_row(row["name"], *_figures(row["visibility"]))
    table.add_section()
    table.add_row("all", *_figures(overview))
    return table


def _figures(row: dict[str, Any]) -> list[str]:
    return [
        f"{row['collected_count']}/{row['expected_count']}",
        str(row["mentioned_count"]),
        _percent(row["mention_rate"]),
        "—" if row["average_position"] is None else f"{row['average_position']:.1f}",
        _percent(row["share_of_voice"]),
        _count(row["citation_count"]),
        _count(row["own_citation_count"]),
    ]


def _count(value: int | None) -> str:
    return "—" if value is None else str(value)


def _percent(value: float | None) -> str:
    return "—" if value is None else f"{value:.0%}"


def print_tables(console: Console, *tables: Table) -> None:
    """One after the other with a line between."""
    for table in tables:
        console.print()
        console.print(table)
