"""When a plan runs: cron or RRULE in the plan's time zone (1-dispatch §1.1, §1.6). Pure.

A wall time that a clock change skips runs later by what the clock jumped; one that comes twice runs the first time.
"""

import re
from collections.abc import Iterator
from datetime import MAXYEAR, UTC, datetime, timedelta
from itertools import takewhile
from typing import Final
from zoneinfo import ZoneInfo

from croniter import CroniterError, croniter
from dateutil.rrule import rrule, rrulestr

from domain.errors import InvalidInput

MAX_CADENCE_CHARS: Final = 500
MAX_SLOTS: Final = 1000
# Zones move their clocks by at most this much, so a wall time earlier than `after` can still lie ahead of it.
LARGEST_JUMP: Final = timedelta(hours=3)
# Phase of rules without a DTSTART of their own: a Monday at midnight.
ANCHOR: Final = datetime(2000, 1, 3)

_CRON_FIELD: Final = re.compile(r"[0-9A-Za-z*/,\-#?]{1,100}", re.ASCII)
# croniter's hashed and random fields: a plan's times must be the same in every process.
_UNSTABLE: Final = re.compile(r"(?<![a-z])[hr](?![a-z])", re.IGNORECASE)
_RULE: Final = re.compile(r"(?:DTSTART:(\d{8}T\d{6})\s+)?(?:RRULE:)?(FREQ=[A-Z0-9=;,+\-]+)", re.ASCII)
_FREQUENCIES: Final = {"HOURLY": timedelta(hours=1), "DAILY": timedelta(days=1), "WEEKLY": timedelta(weeks=1)}
_SLOW_FREQUENCIES: Final = ("MONTHLY", "YEARLY")
# With days of a month or year these would walk years for nothing; MONTHLY and YEARLY say the same.
_SHORT_PARTS: Final = frozenset({"FREQ", "INTERVAL", "BYMONTH", "BYDAY", "BYHOUR", "BYMINUTE", "BYSECOND", "WKST"})
_LONG_PARTS: Final = _SHORT_PARTS | {"BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYSETPOS"}
# The calendar repeats after 400 years, to the weekday.
_ERA_YEARS: Final = 400
_ERA: Final = timedelta(days=146_097)


def next_run(kind: str, cadence: str, time_zone: str, after: datetime) -> datetime:
    """The first run strictly after `after` (aware), in UTC.

    Raises InvalidInput for an unknown zone, a cadence that can't be read, and one that never runs.
    """
    for instant in _instants(kind, cadence, time_zone, after):
        if instant > after:
            return instant
    raise InvalidInput(f"the cadence {cadence!r} never runs")


def slots_between(kind: str, cadence: str, time_zone: str, start: datetime, until: datetime) -> list[datetime]:
    """Every run in [start, until], ascending, in UTC; the newest MAX_SLOTS at most. Raises as `next_run`."""
    reach = timedelta(days=1)
    while True:
        # From the end backwards in growing windows, so that years of a busy plan cost no more than its newest slots.
        begin = max(start, until - reach)
        due = takewhile(lambda instant: instant <= until, _instants(kind, cadence, time_zone, begin))
        slots = [instant for instant in due if instant >= begin]
        if begin == start or len(slots) >= MAX_SLOTS:
            return slots[-MAX_SLOTS:]
        reach *= 4


def zone_of(time_zone: str) -> ZoneInfo:
    """The zone by its IANA name; InvalidInput for an unknown one."""
    try:
        return ZoneInfo(time_zone)
    except (ValueError, OSError, KeyError):
        raise InvalidInput(f"unknown time zone {time_zone[:64]!r}; use an IANA name such as Asia/Shanghai") from None


def _instants(kind: str, cadence: str, time_zone: str, start: datetime) -> Iterator[datetime]:
    """Runs from a little before `start` on, ascending."""
    zone = zone_of(time_zone)
    begin = start.astimezone(zone).replace(tzinfo=None) - LARGEST_JUMP
    if len(cadence) > MAX_CADENCE_CHARS:
        raise InvalidInput(f"a cadence has at most {MAX_CADENCE_CHARS} characters")
    walls = _cron(cadence, begin) if kind == "cron" else _rrule(cadence, begin)
    return _in_order(walls, zone)


def _in_order(walls: Iterator[datetime], zone: ZoneInfo) -> Iterator[datetime]:
    """Instants of the wall times. A skipped one moves behind those that exist before it, and never doubles one."""
    skipped: list[datetime] = []
    for wall in walls:
        instant = wall.replace(tzinfo=zone).astimezone(UTC)
        if instant.astimezone(zone).replace(tzinfo=None) != wall:
            skipped.append(instant)
            continue
        yield from (late for late in skipped if late < instant)
        skipped = [late for late in skipped if late > instant]
        yield instant
    yield from skipped


def _cron(cadence: str, begin: datetime) -> Iterator[datetime]:
    fields = cadence.split()
    if len(fields) != 5 or not all(map(_CRON_FIELD.fullmatch, fields)) or _UNSTABLE.search(cadence):
        raise InvalidInput(f"{cadence!r} is not a cron line of five fields: minute hour day month weekday")
    try:
        runs = croniter(" ".join(fields), begin, ret_type=datetime, max_years_between_matches=9)
    except (CroniterError, ValueError, OverflowError) as error:
        raise InvalidInput(f"cannot read the cron line {cadence!r}: {error}") from None
    return _until_exhausted(runs)


def _until_exhausted(runs: croniter) -> Iterator[datetime]:
    try:
        while True:
            yield runs.get_next()
    except CroniterError:
        return


def _rrule(cadence: str, begin: datetime) -> Iterator[datetime]:
    matched = _RULE.fullmatch(cadence.strip())
    if matched is None:
        raise InvalidInput(f"{cadence!r} is not one RRULE, with at most a floating DTSTART line before it")
    start, text = matched.groups()
    anchor = _dtstart(start) if start else ANCHOR
    step = _check_rule(text)
    # dateutil looks for a rule that never runs up to the year 9999, so it is asked in the calendar's last era.
    eras = _ERA * max((MAXYEAR - 9 - max(begin, anchor).year) // _ERA_YEARS, 0)
    try:
        rule = rrulestr(text, dtstart=_near(anchor, step, begin) + eras)
        assert isinstance(rule, rrule)
        return (wall - eras for wall in rule.xafter(begin + eras))
    except (ValueError, TypeError, OverflowError, AttributeError) as error:
        raise InvalidInput(f"cannot read the RRULE {cadence!r}: {error}") from None


def _dtstart(text: str) -> datetime:
    try:
        start = datetime.strptime(text, "%Y%m%dT%H%M%S")
    except ValueError:
        raise InvalidInput(f"{text!r} is not a DTSTART") from None
    if not ANCHOR.year <= start.year <= ANCHOR.year + 200:
        raise InvalidInput(f"a DTSTART lies between {ANCHOR.year} and {ANCHOR.year + 200}")
    return start


def _check_rule(text: str) -> timedelta | None:
    """The rule's period, None for months and years, which have no fixed one.

    Refused: rules that end (a plan runs until it is switched off), those under an hour, and short ones by date.
    """
    given = [part.partition("=")[::2] for part in text.split(";") if part]
    parts = dict(given)
    frequency, interval = parts["FREQ"], parts.get("INTERVAL", "1")
    if len(parts) != len(given):
        raise InvalidInput("an RRULE names each part once")
    if parts.keys() & {"COUNT", "UNTIL"}:
        raise InvalidInput("a plan's RRULE has neither COUNT nor UNTIL; switch the plan off instead")
    if frequency not in (*_FREQUENCIES, *_SLOW_FREQUENCIES):
        raise InvalidInput("a plan's FREQ is HOURLY, DAILY, WEEKLY, MONTHLY or YEARLY")
    allowed = _SHORT_PARTS if frequency in ("HOURLY", "DAILY") else _LONG_PARTS
    if not parts.keys() <= allowed:
        raise InvalidInput(f"a plan's {frequency} rule takes {', '.join(sorted(allowed))} only")
    if "," in parts.get("BYSECOND", ""):
        raise InvalidInput("a plan runs once a minute at most: one BYSECOND")
    if not interval.isdigit() or len(interval) > 4 or not 1 <= int(interval) <= 1000:
        raise InvalidInput("an INTERVAL is 1 to 1000")
    unit = _FREQUENCIES.get(frequency)
    return None if unit is None else unit * int(interval)


def _near(anchor: datetime, step: timedelta | None, begin: datetime) -> datetime:
    """The anchor moved by whole periods to just before `begin`: the same rule, without walking years of it."""
    if step is None or begin <= anchor:
        return anchor
    return anchor + step * max((begin - anchor) // step - 1, 0)
