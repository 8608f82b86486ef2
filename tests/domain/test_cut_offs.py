"""When a batch's day is over, on the plan's own clock (1-dispatch §1.6, 3-results §3.7)."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.cut_offs import backfill_cut_off, cut_off_of

SHANGHAI = ZoneInfo("Asia/Shanghai")


def at(*parts: int, zone: ZoneInfo = SHANGHAI) -> datetime:
    return datetime(*parts, tzinfo=zone)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("rule", "hour", "cut_off", "backfill"),
    [
        ("today", 6, at(2026, 4, 21, 0, 0), at(2026, 4, 21, 6, 10)),
        ("today", 23, at(2026, 4, 21, 0, 0), at(2026, 4, 21, 6, 10)),
        ("previous_day", 1, at(2026, 4, 20, 6, 10), at(2026, 4, 21, 0, 0)),
        ("previous_day", 7, at(2026, 4, 21, 0, 0), at(2026, 4, 21, 6, 10)),
    ],
)
def test_a_batch_ends_where_its_rule_says_and_its_backfill_at_the_next_end(
    rule: str, hour: int, cut_off: datetime, backfill: datetime
) -> None:
    found = cut_off_of(rule, at(2026, 4, 20, hour), SHANGHAI)
    assert found == cut_off
    assert backfill_cut_off(found, SHANGHAI) == backfill


def test_ends_follow_the_wall_clock_through_its_changes() -> None:
    new_york = ZoneInfo("America/New_York")
    # 8 March 2026: 02:00–02:59 does not exist, so the morning is an hour nearer.
    midnight = cut_off_of("today", at(2026, 3, 7, 9, zone=new_york), new_york)
    morning = backfill_cut_off(midnight, new_york)
    assert (midnight.astimezone(UTC), morning.astimezone(UTC)) == (
        datetime(2026, 3, 8, 5, 0, tzinfo=UTC),
        datetime(2026, 3, 8, 10, 10, tzinfo=UTC),
    )


MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))
ZONES = st.sampled_from(["Asia/Shanghai", "America/New_York", "Europe/London", "Asia/Beirut", "Pacific/Apia"])


@settings(max_examples=60)
@given(rule=st.sampled_from(["today", "previous_day"]), start=MOMENTS, name=ZONES)
def test_every_batch_and_its_backfill_have_an_end_ahead(rule: str, start: datetime, name: str) -> None:
    zone = ZoneInfo(name)
    cut_off = cut_off_of(rule, start, zone).astimezone(UTC)
    backfill = backfill_cut_off(cut_off, zone).astimezone(UTC)
    assert start < cut_off <= start + timedelta(hours=26)
    assert timedelta(hours=4) < backfill - cut_off < timedelta(hours=20)
