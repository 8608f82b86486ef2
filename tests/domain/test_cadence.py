"""Rules of plans' times: the plan's own clock, clock changes, bounded work on hostile cadences."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from domain.cadence import MAX_SLOTS, next_run, slots_between
from domain.errors import InvalidInput

SHANGHAI = "Asia/Shanghai"
NEW_YORK = "America/New_York"
START = datetime(2026, 4, 20, tzinfo=UTC)


def at(zone: str, *parts: int) -> datetime:
    return datetime(*parts, tzinfo=ZoneInfo(zone)).astimezone(UTC)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("kind", "cadence", "expected"),
    [
        ("cron", "0 9 * * *", at(SHANGHAI, 2026, 4, 20, 9)),
        ("cron", "0 7 * * *", at(SHANGHAI, 2026, 4, 21, 7)),
        ("cron", "0 8 * * *", at(SHANGHAI, 2026, 4, 21, 8)),
        ("cron", "30 */6 * * mon-fri", at(SHANGHAI, 2026, 4, 20, 12, 30)),
        ("rrule", "FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0", at(SHANGHAI, 2026, 4, 20, 9)),
        ("rrule", "RRULE:FREQ=WEEKLY;BYDAY=WE;BYHOUR=6", at(SHANGHAI, 2026, 4, 22, 6)),
        ("rrule", "FREQ=MONTHLY;BYMONTHDAY=-1;BYHOUR=23", at(SHANGHAI, 2026, 4, 30, 23)),
        ("rrule", "DTSTART:20260401T101500\nRRULE:FREQ=DAILY;INTERVAL=7", at(SHANGHAI, 2026, 4, 22, 10, 15)),
        ("rrule", "DTSTART:20270101T090000\nRRULE:FREQ=DAILY", at(SHANGHAI, 2027, 1, 1, 9)),
        ("rrule", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", at(SHANGHAI, 2028, 2, 29)),
        ("rrule", "FREQ=HOURLY;INTERVAL=5", at(SHANGHAI, 2026, 4, 20, 10)),
    ],
)
def test_next_run_is_strictly_after_on_the_plans_own_clock(kind: str, cadence: str, expected: datetime) -> None:
    after = at(SHANGHAI, 2026, 4, 20, 8)
    found = next_run(kind, cadence, SHANGHAI, after)
    if "INTERVAL=5" in cadence:
        assert (found - at(SHANGHAI, 2000, 1, 3)) % timedelta(hours=5) == timedelta(0)
        assert after < found <= after + timedelta(hours=5)
    else:
        assert found == expected
    assert found.tzinfo is UTC


def test_a_skipped_wall_time_runs_once_later_and_in_order() -> None:
    # New York, 8 March 2026: 02:00–02:59 does not exist.
    before = at(NEW_YORK, 2026, 3, 8, 0, 30)
    assert next_run("cron", "30 2 * * *", NEW_YORK, before) == at(NEW_YORK, 2026, 3, 8, 3, 30)
    slots = slots_between("cron", "*/30 1-4 * * *", NEW_YORK, before, at(NEW_YORK, 2026, 3, 8, 4, 0))
    walls = [slot.astimezone(ZoneInfo(NEW_YORK)).strftime("%H:%M") for slot in slots]
    assert walls == ["01:00", "01:30", "03:00", "03:30", "04:00"]


def test_a_doubled_wall_time_runs_the_first_time_only() -> None:
    # New York, 1 November 2026: 01:00–01:59 comes twice.
    slots = slots_between("cron", "30 1 * * *", NEW_YORK, at(NEW_YORK, 2026, 11, 1), at(NEW_YORK, 2026, 11, 1, 23))
    assert slots == [datetime(2026, 11, 1, 5, 30, tzinfo=UTC)]
    assert next_run("cron", "30 1 * * *", NEW_YORK, slots[0]) == at(NEW_YORK, 2026, 11, 2, 1, 30)


def test_the_rule_of_an_interval_does_not_depend_on_where_one_starts_looking() -> None:
    rule = "FREQ=DAILY;INTERVAL=3;BYHOUR=6"
    all_at_once = slots_between("rrule", rule, SHANGHAI, START, START + timedelta(days=60))
    one_by_one, now = [], START
    while (now := next_run("rrule", rule, SHANGHAI, now)) <= START + timedelta(days=60):
        one_by_one.append(now)
    assert one_by_one == all_at_once
    assert len(one_by_one) == 20


def test_slots_between_has_both_ends() -> None:
    first, last = at(SHANGHAI, 2026, 4, 20, 9), at(SHANGHAI, 2026, 4, 22, 9)
    assert slots_between("cron", "0 9 * * *", SHANGHAI, first, last) == [first, at(SHANGHAI, 2026, 4, 21, 9), last]
    assert slots_between("cron", "0 9 * * *", SHANGHAI, first + timedelta(seconds=1), first + timedelta(hours=1)) == []


def test_a_sparse_plan_loses_no_slot_to_the_bound() -> None:
    slots = slots_between("cron", "0 9 1 1 *", SHANGHAI, datetime(2001, 6, 1, tzinfo=UTC), START)
    assert [slot.year for slot in slots] == list(range(2002, 2027))


def test_years_of_missed_minutes_are_bounded() -> None:
    until = START + timedelta(days=3000)
    slots = slots_between("cron", "* * * * *", SHANGHAI, START, until)
    assert len(slots) == MAX_SLOTS
    assert slots[-1] == until


@pytest.mark.parametrize(
    ("kind", "cadence"),
    [
        ("cron", ""),
        ("cron", "99 * * * *"),
        ("cron", "* * * * * *"),
        ("cron", "@daily"),
        ("cron", "R * * * *"),
        ("cron", "H(0-5) * * * *"),
        ("cron", "0 0 30 2 *"),
        ("cron", "٣ * * * *"),
        ("cron", "* " * 300),
        ("rrule", ""),
        ("rrule", "FREQ=NEVER"),
        ("rrule", "FREQ=SECONDLY"),
        ("rrule", "FREQ=MINUTELY"),
        ("rrule", "FREQ=DAILY;INTERVAL=0"),
        ("rrule", "FREQ=YEARLY;INTERVAL=99999999999"),
        ("rrule", "FREQ=DAILY;COUNT=3"),
        ("rrule", "FREQ=DAILY;UNTIL=20270101T000000"),
        ("rrule", "FREQ=DAILY;BYHOUR=99"),
        ("rrule", "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30"),
        ("rrule", "FREQ=MONTHLY;BYSETPOS=0"),
        ("rrule", "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"),
        ("rrule", "FREQ=WEEKLY;BYMONTH=2;BYMONTHDAY=30"),
        ("rrule", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"),
        ("rrule", "FREQ=DAILY;INTERVAL=7;BYDAY=TU"),
        ("rrule", "FREQ=HOURLY;INTERVAL=168;BYDAY=TU"),
        ("rrule", "FREQ=YEARLY;BYEASTER=0"),
        ("rrule", "FREQ=DAILY;BYSECOND=1,2"),
        ("rrule", "DTSTART:00010101T000000\nRRULE:FREQ=MONTHLY"),
        ("rrule", "FREQ=HOURLY;FREQ=DAILY"),
        ("rrule", "FREQ=DAILY;INTERVAL=1;INTERVAL=0"),
        ("rrule", "DTSTART:20269999T000000\nRRULE:FREQ=DAILY"),
        ("rrule", "DTSTART:99991231T235959\nRRULE:FREQ=DAILY"),
        ("rrule", "RRULE:FREQ=DAILY\nEXRULE:FREQ=DAILY"),
        ("rrule", "FREQ=DAILY;BYHOUR=" + "1," * 300),
    ],
)
def test_a_cadence_that_cannot_be_read_or_never_runs_is_refused(kind: str, cadence: str) -> None:
    with pytest.raises(InvalidInput):
        next_run(kind, cadence, SHANGHAI, START)


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../etc/passwd", "/etc/passwd", "\0", "A" * 1000])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidInput):
        next_run("cron", "0 9 * * *", zone, START)
