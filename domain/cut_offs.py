"""When a batch's day is over, and how long a backfill may go on (1-dispatch §1.6, 3-results §3.7). Pure.

A day has two ends: local midnight, when what was asked today stops being today's, and 06:10, when yesterday's numbers
are about to be added up. A batch ends at the one that its plan names, its backfill at the next one.
"""

from datetime import datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

MORNING: Final = time(6, 10)
MIDNIGHT: Final = time(0)


def cut_off_of(business_date_rule: str, scheduled_for: datetime, zone: ZoneInfo) -> datetime:
    """The cut-off of a batch: a `previous_day` one that starts before 06:10 local ends then, any other at midnight."""
    local = scheduled_for.astimezone(zone)
    morning = datetime.combine(local.date(), MORNING, zone)
    return morning if business_date_rule == "previous_day" and morning > local else _midnight_after(local, zone)


def backfill_cut_off(cut_off: datetime, zone: ZoneInfo) -> datetime:
    """The cut-off of the backfill of a batch that was cut off then: the next end of a day, of either kind."""
    local = cut_off.astimezone(zone)
    morning = datetime.combine(local.date(), MORNING, zone)
    return morning if morning > local else _midnight_after(local, zone)


def _midnight_after(local: datetime, zone: ZoneInfo) -> datetime:
    return datetime.combine(local.date() + timedelta(days=1), MIDNIGHT, zone)
