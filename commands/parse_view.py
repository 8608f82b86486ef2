"""Tables of `giveway parse` for people: a line a file, and everything of a single one."""

import os
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from commands.parse_report import Report

Shown = dict[str, Any]


def show(console: Console, reports: list[Report]) -> None:
    """One line a file; with one file also its mentions, sources and queries."""
    console.print(_overview(reports))
    if len(reports) == 1:
        _details(console, reports[0].shown)


def _overview(reports: list[Report]) -> Table:
    table = Table(box=None)
    table.add_column("file", overflow="fold")
    for name in ("wire", "kind"):
        table.add_column(name, no_wrap=True)
    for name in ("chars", "cited", "brand", "place", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("note", overflow="fold")
    for report, name in zip(reports, _short_names(reports), strict=True):
        table.add_row(escape(name), *(escape(cell) for cell in _line(report)))
    return table


def _short_names(reports: list[Report]) -> list[str]:
    """Without their folders, unless two files have the same name."""
    files = [report.shown["file"] for report in reports]
    names = [os.path.basename(file) for file in files]
    return names if len(set(names)) == len(names) else files


def _line(report: Report) -> list[str]:
    shown = report.shown
    brand = next((each for each in shown["mentions"] if each["role"] == "brand"), None)
    return [
        shown["wire"] or "-",
        shown["kind"],
        str(shown["text_chars"]),
        str(len(shown["citations"])),
        str(brand["count"]) if brand else "-",
        str(brand["position"]) if brand else "-",
        "-" if shown["share_of_voice"] is None else f"{shown['share_of_voice']:.0%}",
        _note(report),
    ]


def _note(report: Report) -> str:
    absent = "says it knows nothing of the brand" if report.shown["absence"] else None
    return "; ".join(filter(None, (report.shown["error"], absent, report.doubt)))


def _details(console: Console, shown: Shown) -> None:
    names = ("platform", "finish_reason", "confidence")
    console.print("  ".join(f"{name}: {escape(str(shown[name]))}" for name in names))
    for query in shown["search_queries"]:
        console.print(f"searched for: {query}", markup=False)
    if shown["mentions"]:
        console.print(_mentions(shown["mentions"]))
    for title in ("citations", "retrieved"):
        if shown[title]:
            console.print(_pages(title, shown[title]))


def _mentions(mentions: list[Shown]) -> Table:
    table = Table("name", "role", box=None, title="mentions", title_justify="left")
    for name in ("count", "first at", "place"):
        table.add_column(name, justify="right")
    for each in mentions:
        numbers = (each["count"], each["first_offset"], each["position"])
        table.add_row(escape(each["name"]), each["role"], *map(str, numbers))
    return table


def _pages(title: str, pages: list[Shown]) -> Table:
    table = Table("#", "owner", "domain", box=None, title=title, title_justify="left")
    table.add_column("page", overflow="fold")
    for each in pages:
        page = each["normalized_url"] or f"{each['url']} (no web page)"
        table.add_row(str(each["ordinal"]), each["owner"], escape(each["domain"] or "?"), escape(page))
    return table
