"""Due plans become batches, each slot once, and say what they stand for (1-dispatch §1.6)."""

import asyncio
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from store import batch_starts
from store.database import Pool
from tests.support.world import World, ago

SHANGHAI = ZoneInfo("Asia/Shanghai")


@pytest.fixture
async def world(pool: Pool) -> World:
    """A tenant without plans."""
    return await World.create(pool)


def local(*parts: int) -> datetime:
    """A wall time in Shanghai."""
    return datetime(*parts, tzinfo=SHANGHAI)  # type: ignore[misc, arg-type]


def plan_row(**more: Any) -> Any:
    """A due plan as `claim_due_plans` returns it; daily at 06:00 in Shanghai unless told."""
    given = {
        "id": 7,
        "cadence_kind": "cron",
        "cadence": "0 6 * * *",
        "time_zone": "Asia/Shanghai",
        "business_date_rule": "today",
        "next_run_at": local(2026, 4, 20, 6, 0),
    }
    return {**given, **more}


@pytest.mark.parametrize(
    ("rule", "cadence", "at", "day", "cut_off"),
    [
        ("today", "0 6 * * *", (6, 0), date(2026, 4, 20), local(2026, 4, 21, 0, 0)),
        ("today", "30 23 * * *", (23, 30), date(2026, 4, 20), local(2026, 4, 21, 0, 0)),
        ("previous_day", "0 1 * * *", (1, 0), date(2026, 4, 19), local(2026, 4, 20, 6, 10)),
        ("previous_day", "0 7 * * *", (7, 0), date(2026, 4, 19), local(2026, 4, 21, 0, 0)),
    ],
)
def test_business_date_and_cut_off_follow_the_plans_rule_in_its_zone(
    rule: str, cadence: str, at: tuple[int, int], day: date, cut_off: datetime
) -> None:
    due = local(2026, 4, 20, *at)
    plan = plan_row(business_date_rule=rule, cadence=cadence, next_run_at=due)
    claimed = batch_starts.slot_of(plan, due + timedelta(seconds=3))
    assert (claimed.business_date, claimed.cut_off_at, claimed.scheduled_for) == (day, cut_off, due)
    assert (claimed.slot, claimed.skipped) == (f"p7-{at[0]:02}{at[1]:02}00", 0)


def test_a_missed_schedule_catches_up_once_and_says_how_many_slots_it_skipped() -> None:
    claimed = batch_starts.slot_of(plan_row(cadence="0 * * * *"), local(2026, 4, 20, 9, 59))
    assert (claimed.scheduled_for, claimed.skipped) == (local(2026, 4, 20, 9, 0), 3)


@pytest.mark.parametrize(
    ("kind", "cadence", "day", "skipped"),
    [
        # New York: 02:30 of 8 March 2026 does not exist and runs at 03:30; 01:30 of 1 November comes twice, runs once.
        ("cron", "30 2 * * *", datetime(2026, 3, 7), 2),
        ("rrule", "FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0", datetime(2026, 3, 7), 2),
        ("cron", "30 1 * * *", datetime(2026, 10, 31), 2),
        ("rrule", "FREQ=DAILY;BYHOUR=1;BYMINUTE=30;BYSECOND=0", datetime(2026, 10, 31), 2),
    ],
)
def test_a_clock_change_neither_adds_nor_loses_a_missed_slot(
    kind: str, cadence: str, day: datetime, skipped: int
) -> None:
    zone = ZoneInfo("America/New_York")
    due = day.replace(hour=1, tzinfo=zone)
    plan = plan_row(cadence_kind=kind, cadence=cadence, time_zone="America/New_York", next_run_at=due)
    claimed = batch_starts.slot_of(plan, due + timedelta(days=2, hours=3))
    assert claimed.skipped == skipped
    assert claimed.business_date == (day + timedelta(days=2)).date()


async def due_plans(world: World, number: int) -> list[int]:
    return [await world.plan(next_run_at=ago(minutes=5)) for _ in range(number)]


async def test_scans_at_once_plan_each_batch_once(world: World) -> None:
    plans = await due_plans(world, 12)
    claimed = await asyncio.gather(*(batch_starts.claim_due_plans(world.pool, limit=5) for _ in range(3)))
    assert sum(claimed) == 12
    rows = await world.pool.fetch("select plan_id, status from scheduled_batches order by plan_id")
    assert [tuple(row) for row in rows] == [(plan, "planned") for plan in plans]
    assert await world.pool.fetchval("select count(*) from monitoring_plans where next_run_at <= now()") == 0
    assert await batch_starts.claim_due_plans(world.pool) == 0


async def test_a_scan_does_not_wait_for_a_plan_that_another_holds(world: World) -> None:
    held, free = await due_plans(world, 2)
    async with world.pool.acquire() as other, other.transaction():
        await other.execute("select id from monitoring_plans where id = $1 for update", held)
        assert await asyncio.wait_for(batch_starts.claim_due_plans(world.pool), 5) == 1
    assert [row["plan_id"] for row in await world.pool.fetch("select plan_id from scheduled_batches")] == [free]


async def test_a_scan_goes_on_past_one_transactions_worth(world: World) -> None:
    await due_plans(world, 7)
    assert await batch_starts.claim_due_plans(world.pool, limit=3) == 7


async def test_a_cadence_that_cannot_be_read_does_not_stop_the_others(world: World) -> None:
    broken, good = await due_plans(world, 2)
    await world.set("monitoring_plans", broken, cadence="every day or so")
    await batch_starts.claim_due_plans(world.pool)
    rows = await world.pool.fetch("select plan_id from scheduled_batches")
    assert [row["plan_id"] for row in rows] == [good]
    assert (await world.row("monitoring_plans", broken))["next_run_at"] is None


async def test_the_same_slot_claimed_again_is_one_batch(world: World) -> None:
    [plan] = await due_plans(world, 1)
    await batch_starts.claim_due_plans(world.pool)
    first = await batch_starts.find_planned(world.pool)
    scheduled_for = await world.pool.fetchval("select scheduled_for from scheduled_batches")
    await world.set("monitoring_plans", plan, next_run_at=scheduled_for)
    await batch_starts.claim_due_plans(world.pool)
    assert await batch_starts.find_planned(world.pool) == first
    assert len(first) == 1


async def test_planned_batches_are_found_page_by_page(world: World) -> None:
    made = [await world.batch(status="planned") for _ in range(5)]
    found, last = [], 0
    while page := await batch_starts.find_planned(world.pool, last, limit=2):
        assert len(page) <= 2
        found += [start.batch_id for start, _ in page]
        last = found[-1]
    assert found == made
