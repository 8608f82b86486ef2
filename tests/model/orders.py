"""What becomes of orders to stop, seen from outside: one look after each step, against the one before."""

from collections import Counter
from typing import Any
from uuid import UUID

from tests.model.state import Model, Order

# Of one execution task with an order.
ASKED = ("asked by policy all", "asked by policy needed")
ENDED = ("stopped", "finished first", "released by force", "withdrawn", "adopted")
PASSED_ON = ("inherited",)
HARD_TIMEOUT = "hard timeout"
ACKNOWLEDGED = ("acknowledged in time", "acknowledged stale", "acknowledged late", "acknowledged again")
FLOOR_HELD = "floor held"
# What every run must have seen: the prologue of a walk alone sees to it.
EXPECTED = (*ASKED, *ENDED[:4], *PASSED_ON, HARD_TIMEOUT, *ACKNOWLEDGED, FLOOR_HELD)

_LOOK = """
select d.id, coalesce(d.control_flags ->> 'interrupt_requested' = 'true', false) as stands,
    d.interrupt_request_id as request, d.interrupt_generation as generation, d.status, d.source
from desktop_tasks d where d.interrupt_generation > 0
"""
_TIMED_OUT = "select coalesce(sum(interrupt_timed_out_count), 0) from monitoring_collect_requests"
_POLICY = "select value from dispatch_settings where key = 'preempt_policy'"


async def observe(model: Model) -> None:
    """Count what became of orders since the last look."""
    rows = await model.pool.fetch(_LOOK)
    policy = await model.pool.fetchval(_POLICY) or "all"
    for row in rows:
        now = Order(row["stands"], row["request"], row["generation"])
        before = model.orders.get(row["id"])
        if now != before:
            _count(model, row["id"], before, row, policy)
            model.orders[row["id"]] = now
    model.happened[HARD_TIMEOUT] = await model.pool.fetchval(_TIMED_OUT)


def _count(model: Model, task: UUID, before: Order | None, row: Any, policy: str) -> None:
    stood = before is not None and before.stands
    if row["stands"] and not stood:
        model.happened[f"asked by policy {policy}"] += 1
    elif row["stands"] and before is not None and before.request != row["request"]:
        model.happened["inherited" if before.generation == row["generation"] else "asked anew"] += 1
    elif stood and not row["stands"]:
        model.happened[_end(row)] += 1


def _end(row: Any) -> str:
    match row["status"]:
        case "aborted":
            return "stopped"
        case "unknown":
            return "released by force"
        case "in_progress":
            return "adopted" if row["source"] == "collect_now" else "withdrawn"
        case _:
            return "finished first"


def asked(happened: Counter[str]) -> int:
    """Interrupts of running scheduled tasks."""
    return sum(happened[kind] for kind in ASKED)


def summary(happened: Counter[str]) -> str:
    """For people: every kind that is expected, those that were not seen too."""
    kinds = [*EXPECTED, *sorted(happened.keys() - set(EXPECTED))]
    return f"{asked(happened)} interrupts: " + ", ".join(f"{kind} {happened[kind]}" for kind in kinds)
