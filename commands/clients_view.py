"""Desktops for people: tables of the fleet, one desktop on a page, totals."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.markup import escape as escape_markup
from rich.table import Table

# Of what is worth a colour.
STYLES: Final = {"online": "green", "paused": "yellow", "lost": "red", "revoked": "dim", "offline": "dim"}
WORST_RATE: Final = 0.2


def _text(said: str) -> str:
    """What a desktop or its user wrote, fit for a terminal: as it is, but no markup and no control characters."""
    return escape_markup("".join(each if each.isprintable() else "\ufffd" for each in said))


def list_table(found: list[dict[str, Any]]) -> RenderableType:
    """A line a desktop; the id is its last 12 characters."""
    if not found:
        return "no desktops; `--all` shows revoked ones too, and a filter may be too narrow"
    table = Table(box=None, padding=(0, 1, 0, 0))
    for name in ("client", "tenant", "name", "state", "since"):
        table.add_column(name, no_wrap=True, overflow="ellipsis", max_width=18)
    for name in ("slots", "queue"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("phases", overflow="fold")
    table.add_column("logins to mend", overflow="fold", min_width=14)
    table.add_column("abort", justify="right")
    for name in ("version", "seen"):
        table.add_column(name, no_wrap=True)
    now = datetime.now(UTC)
    for row in found:
        table.add_row(*_cells(row, now))
    return table


def _cells(row: dict[str, Any], now: datetime) -> list[str]:
    return [
        str(row["id"])[-12:],
        str(row["tenant_id"]),
        _text(row["name"]),
        _state(row),
        age(row["since"], now),
        _beside(f"{row['slots_used']}/{row['slots_limit']}", row, "slots_used", "reported_running"),
        _beside(str(row["queued"]), row, "queued", "reported_queued"),
        " ".join(phase.lower() for phase in row["phases"]),
        _text(" ".join(_to_mend(row["platform_sessions"]))),
        _rate(row["abort_rate"], row["ended"]),
        _text(row["program_version"] or ""),
        age(row["last_heartbeat_at"], now),
    ]


def _state(row: dict[str, Any]) -> str:
    state = row["state"]
    note = "" if row["healthy"] or not row["online"] else " (unhealthy)"
    return f"[{STYLES[state]}]{state}{note}[/]"


def _beside(shown: str, row: dict[str, Any], counted: str, said: str) -> str:
    """The server's count, and the desktop's own where that differs."""
    if not row["disagrees"] or row[said] == row[counted]:
        return shown
    return f"{shown} [yellow](says {row[said]})[/]"


def _to_mend(sessions: Mapping[str, Any]) -> list[str]:
    return [f"{platform}:{health}" for platform, health in sorted(sessions.items()) if health != "healthy"]


def _rate(rate: float | None, ended: int) -> str:
    if rate is None or not ended:
        return ""
    text = f"{rate:.0%}"
    return f"[red]{text}[/]" if rate >= WORST_RATE else text


def age(then: datetime | None, now: datetime) -> str:
    """How long ago, in the one unit that matters; empty for never."""
    if then is None:
        return ""
    seconds = max(0.0, (now - then).total_seconds())
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def detail_view(found: dict[str, Any]) -> RenderableType:
    """One desktop: facts, tasks, history."""
    now = datetime.now(UTC)
    return Group(_facts(found, now), "", _tasks(found["tasks"], now), "", _history(found["history"], now))


def _facts(found: dict[str, Any], now: datetime) -> Table:
    error = found["last_error"]
    facts = {
        "client": str(found["id"]),
        "name": _text(found["name"]),
        "tenant, workspace, user": f"{found['tenant_id']}, {found['workspace_id']}, {found['user_id']}",
        "state": f"{_state(found)} for {age(found['since'], now)}",
        "hub, epoch": f"{_text(found['hub'] or 'unknown')}, {found['connection_epoch']}",
        "last heartbeat": _ago(found["last_heartbeat_at"], now),
        "connected": _ago(found["connected_at"], now),
        "disconnected": _ended(found, now),
        "program, protocol": _text(f"{found['program_version'] or 'unknown'}, {found['protocol'] or 'unknown'}"),
        "slots": f"{found['slots_used']} of {found['slots_limit']} (from the {found['slots_from']})",
        "waiting": f"{found['queued']}; unknown {found['unknown']}; asked to stop {found['giving_way']}",
        "says of itself": _said(found),
        "logins": _text(", ".join(f"{name} {health}" for name, health in sorted(found["platform_sessions"].items()))),
        "last hour": _hour(found),
        "last error": "" if error is None else _text(f"{error['error']} ({_ago(error['ended_at'], now)})"),
        "highest generation": str(found["highest_generation_seen"]),
        "token from": _ago(found["token_issued_at"], now),
    }
    table = Table(box=None, show_header=False)
    for name, value in facts.items():
        if value:
            table.add_row(name, value)
    return table


def _ago(then: datetime | None, now: datetime) -> str:
    return "" if then is None else f"{age(then, now)} ago"


def _ended(found: dict[str, Any], now: datetime) -> str:
    if found["disconnected_at"] is None:
        return ""
    code = "unknown" if found["last_close_code"] is None else found["last_close_code"]
    return f"{_ago(found['disconnected_at'], now)}, code {code}"


def _said(found: dict[str, Any]) -> str:
    if found["reported_running"] is None:
        return ""
    words = f"runs {found['reported_running']}, has {found['reported_queued']} waiting"
    return f"[yellow]{words}: the server counts otherwise[/]" if found["disagrees"] else words


def _hour(found: dict[str, Any]) -> str:
    success = found["success_rate"]
    words = f"{found['ended']} attempts ended, {found['aborted']} aborted ({found['abort_rate']:.0%})"
    return words if success is None else f"{words}; success rate {success:.0%}"


def _tasks(tasks: list[dict[str, Any]], now: datetime) -> RenderableType:
    if not tasks:
        return "no tasks"
    table = Table(box=None)
    for name in ("task", "of", "status", "phase", "for", "lane", "platform", "lease ends in"):
        table.add_column(name, no_wrap=True)
    for task in tasks:
        asked = " (asked to stop)" if task["interrupt_requested"] else ""
        ends = task["lease_expires_at"]
        table.add_row(
            task["task_id"],
            str(task["monitor_task_id"]),
            f"{task['status']}{asked}",
            task["phase"] or "",
            age(task["phase_since"] or task["started_at"] or task["enqueued_at"], now),
            f"{task['lane']} {task['priority']}",
            task["platform"],
            "" if ends is None else _remaining(ends - now),
        )
    return table


def _remaining(left: timedelta) -> str:
    return f"{left.total_seconds():.0f} s"


def _history(events: list[dict[str, Any]], now: datetime) -> RenderableType:
    if not events:
        return "no events"
    table = Table(box=None)
    for name in ("when", "what", "epoch", "hub", "detail"):
        table.add_column(name, overflow="fold")
    for event in events:
        code = "" if event["close_code"] is None else f"code {event['close_code']} "
        detail = " ".join(f"{key}={value}" for key, value in event["detail"].items())
        hub = _text(event["hub"] or "")
        table.add_row(_ago(event["at"], now), event["kind"], str(event["epoch"]), hub, _text(code + detail))
    return table


def totals_view(found: dict[str, Any]) -> RenderableType:
    """A line a number, by section."""
    table = Table(box=None)
    table.add_column("fleet")
    table.add_column("")
    table.add_column("desktops", justify="right")
    for section in ("states", "versions", "hubs"):
        _add(table, section, found[section])
    for platform, healths in sorted(found["logins"].items()):
        _add(table, f"login {platform}", healths)
    _add(table, "tasks by phase", {phase.lower(): n for phase, n in found["phases"].items()})
    _add(table, "tasks", {"slots used": found["slots_used"], "slots": found["slots_total"], "waiting": found["queued"]})
    return table


def _add(table: Table, section: str, numbers: Mapping[str, int]) -> None:
    for number, (name, count) in enumerate(numbers.items()):
        table.add_row("" if number else section, _text(name), str(count))
