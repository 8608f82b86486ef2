"""A run's figures as one JSON object: the day in virtual time, the same for the same seed, and what it cost here."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from bench.figures import percentile
from domain.budgets import Refusal
from domain.lanes import MONITOR_LANES
from simulation.day import Day
from simulation.state import Outcome, Tenant

SHARES = {"p50": 0.50, "p95": 0.95, "p99": 0.99, "max": 1.0}


def report(day: Day, cpu_seconds: float, wall_seconds: float) -> dict[str, Any]:
    """Everything but `cost` follows from options and seed alone; `digest` covers it."""
    figures = _day(day)
    digest = sha256(repr(figures).encode()).hexdigest()[:16]
    return {**figures, "digest": digest, "cost": _cost(day, cpu_seconds, wall_seconds)}


def sound(figures: dict[str, Any]) -> bool:
    """Whether the books balance and no budget was passed."""
    books = figures["tasks"]
    return not (books["lost"] or books["duplicated"] or figures["violations"])


def _day(day: Day) -> dict[str, Any]:
    context = day.context
    return {
        "command": "simulate",
        "load": _fields(context.load),
        "machine": _fields(context.machine),
        "coordinators": len(day.coordinators),
        "tasks": _tasks(day),
        "violations": {rule: number for rule, number in sorted(context.ledger.violations.items()) if number},
        "first_dispatch_ms": {lane.value: _ms(context.meters.first_dispatch[lane]) for lane in MONITOR_LANES},
        "click_ms": _clicks(day),
        "clicks": dict(sorted(context.meters.clicks.items())),
        "starvation_s": _seconds(context.meters.normal_waits),
        "fairness": _fairness(day),
        "budgets": _budgets(day),
        "preemption": _preemption(day),
        "promoted": context.meters.promoted,
        "attempts": dict(sorted(context.meters.retried.items())),
        "rounds": context.meters.rounds,
        "events": context.clock.events,
    }


def _fields(knobs: Any) -> dict[str, Any]:
    return {name: getattr(knobs, name) for name in type(knobs).__dataclass_fields__}


def _tasks(day: Day) -> dict[str, int]:
    ledger = day.context.ledger
    ended = {outcome.value: ledger.outcomes[outcome] for outcome in Outcome}
    return {
        "asked": ledger.asked,
        "dispatched": ledger.dispatched,
        **ended,
        "unfinished": ledger.unfinished,
        "lost": ledger.lost,
        "duplicated": ledger.duplicated,
    }


def _clicks(day: Day) -> dict[str, Any]:
    meters = day.context.meters
    return {
        "to_dispatched": _ms(meters.click_dispatched),
        "to_started": _ms(meters.click_started),
        "to_finished": _ms(meters.click_finished),
    }


def _fairness(day: Day) -> dict[str, Any]:
    """Mean waits of tenants, and of the quarters with the smallest and the largest plans, in seconds."""
    sums = day.context.meters.tenant_waits
    tenants = sorted((tenant for tenant in day.context.tenants if tenant.id in sums), key=_plan)
    means = [sums[tenant.id][0] / sums[tenant.id][1] for tenant in tenants]
    if not means:
        return {}
    quarter = max(len(means) // 4, 1)
    median, worst = percentile(means, 0.5), max(means)
    return {
        "tenants": len(means),
        "mean_wait_median_s": round(median, 1),
        "mean_wait_worst_s": round(worst, 1),
        "worst_over_median": round(worst / median, 2) if median else None,
        "smallest_quarter_s": round(sum(means[:quarter]) / quarter, 1),
        "largest_quarter_s": round(sum(means[-quarter:]) / quarter, 1),
    }


def _plan(tenant: Tenant) -> tuple[int, int]:
    return (tenant.questions, tenant.id)


def _budgets(day: Day) -> dict[str, Any]:
    context = day.context
    minutes, settings = context.meters.minutes, context.settings
    return {
        "cluster": {
            "setting": settings.cluster_per_minute,
            "fuse": settings.fuses.cluster_per_minute,
            "busy_minutes": len(minutes),
            "mean_a_busy_minute": round(sum(minutes.values()) / max(len(minutes), 1), 1),
            "highest_minute": day.minute.highest,
        },
        "tenant": {
            "setting": settings.tenant_per_minute,
            "highest_minute": max((tenant.minute.highest for tenant in context.tenants), default=0),
        },
        "refusals": {refusal.value: context.meters.refusals[refusal] for refusal in Refusal},
    }


def _preemption(day: Day) -> dict[str, Any]:
    meters = day.context.meters
    names = (
        "asked",
        "settled",
        "finished_instead",
        "withdrawn",
        "lost_with_its_desktop",
        "past_soft_timeout",
        "forced",
        "queued_taken_back",
    )
    return {
        **{name: meters.preempted[name] for name in names},
        "wasted_s": round(meters.wasted, 1),
        "order_to_stop_ms": _ms(meters.settle),
    }


def _cost(day: Day, cpu_seconds: float, wall_seconds: float) -> dict[str, float]:
    dispatched = max(day.context.ledger.dispatched, 1)
    return {
        "rule_us_per_task": round(day.context.meters.rule_seconds / dispatched * 1e6, 1),
        "cpu_us_per_task": round(cpu_seconds / dispatched * 1e6, 1),
        "cpu_seconds": round(cpu_seconds, 2),
        "wall_seconds": round(wall_seconds, 2),
    }


def _ms(seconds: Sequence[float]) -> dict[str, float]:
    """Percentiles in milliseconds; only the number where there is nothing to take them of."""
    return _percentiles(seconds, 1000)


def _seconds(seconds: Sequence[float]) -> dict[str, float]:
    return _percentiles(seconds, 1)


def _percentiles(values: Sequence[float], scale: float) -> dict[str, float]:
    if not values:
        return {"n": 0}
    ordered = sorted(values)
    return {**{name: round(percentile(ordered, share) * scale, 1) for name, share in SHARES.items()}, "n": len(ordered)}
