"""Nobody's clock but the database's decides about a lease (2-desktop §2.2; faults.md: clocks ten minutes apart)."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
# Where leases are given, extended, ended and judged, on both ends of the wire.
LEASE_PATHS: Final = (
    "store/*.py",
    "hub/*.py",
    "api/desktop*.py",
    "activities/presence.py",
    "desktop/board.py",
    "desktop/execution.py",
    "desktop/link.py",
    "desktop/local_task.py",
    "desktop/scheduler.py",
    "desktop/session.py",
)
ASKS: Final = {("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today"), ("date", "today"), ("time", "time")}
# An order's `updated_at` says when it was passed on, to people.
TOLD_ONLY: Final = {("hub/dispatch.py", "_control_frame")}


def modules() -> list[Path]:
    return sorted(path for pattern in LEASE_PATHS for path in ROOT.glob(pattern))


def clocks_asked(source: str) -> Iterator[str]:
    """The functions in which a wall clock is asked."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and ASKS & set(_called(function)):
            yield function.name


def _called(function: ast.AST) -> Iterator[tuple[str, str]]:
    """What is called by name and attribute, as `datetime.now` is."""
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
        ):
            yield node.func.value.id, node.func.attr


def test_no_module_that_handles_leases_asks_a_wall_clock() -> None:
    asked = {
        (path.relative_to(ROOT).as_posix(), function)
        for path in modules()
        for function in clocks_asked(path.read_text(encoding="utf-8"))
    }
    assert asked == TOLD_ONLY


def test_a_clock_that_is_asked_is_found() -> None:
    assert list(clocks_asked("def over(lease):\n    return lease.expires < datetime.now(UTC)")) == ["over"]
    assert list(clocks_asked("def waits():\n    return time.monotonic()")) == []
