"""A dead letter as operators see it: one shape for results and for brand-days."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import msgspec

from broker.dead_letters import DeadLetter
from broker.results import decode_result
from domain.transport import ResultMessage
from store.dead_letters import LetterOwner
from store.projections import ParkedMark


@dataclass(frozen=True, slots=True)
class Entry:
    """One letter of either queue. `tries`: how often it was given up; `size` in bytes. None: nobody knows."""

    id: str
    queue: str
    reason: str
    died_at: datetime | None
    tries: int
    replays: int = 0
    size: int | None = None
    message_id: str | None = None
    attempt_id: str | None = None
    shard: int | None = None
    tenant_id: int | None = None
    brand_id: int | None = None
    business_date: date | None = None

    @property
    def names(self) -> set[str]:
        """What a command may call it by."""
        return {name for name in (self.id, self.message_id) if name is not None}


@dataclass(frozen=True, slots=True)
class Found:
    """One letter to look at; `letter` None: a brand-day, which has no message. `copies`: letters of the same name."""

    entry: Entry
    letter: DeadLetter | None = None
    copies: int = 1


def entry_of(letter: DeadLetter) -> Entry:
    """What the letter itself says. (The attempt of an unreadable body is its message id.)"""
    message = message_of(letter)
    return Entry(
        id=letter.id,
        queue="ingest",
        reason=letter.reason,
        died_at=letter.died_at,
        tries=letter.deaths,
        replays=letter.replays,
        size=len(letter.body),
        message_id=letter.message_id,
        attempt_id=letter.message_id if message is None else message.attempt_id,
        shard=letter.shard,
        tenant_id=None if message is None else message.tenant_id,
    )


def entry_of_mark(mark: ParkedMark) -> Entry:
    """A brand-day that could not be rebuilt."""
    day = mark.day
    return Entry(
        id=f"{day.tenant_id}/{day.brand_id}/{day.business_date}",
        queue="projection",
        reason=mark.error or "no reason was written down",
        died_at=mark.failed_at or mark.marked_at,
        tries=mark.tries,
        tenant_id=day.tenant_id,
        brand_id=day.brand_id,
        business_date=day.business_date,
    )


def message_of(letter: DeadLetter) -> ResultMessage | None:
    """The letter's body as a result; None where it is none."""
    try:
        return decode_result(letter.body)
    except (msgspec.DecodeError, ValueError):
        return None


def owner_of(entry: Entry, owners: dict[UUID, LetterOwner]) -> LetterOwner | None:
    """Its attempt's brand-day, unless the body claims another tenant than the attempt's."""
    attempt = _attempt(entry)
    owner = None if attempt is None else owners.get(attempt)
    return owner if owner is not None and entry.tenant_id in (None, owner.tenant_id) else None


def owned(entry: Entry, owners: dict[UUID, LetterOwner]) -> Entry:
    """With the brand-day that it belongs to, where that is known."""
    owner = owner_of(entry, owners)
    if owner is None:
        return entry
    return replace(entry, tenant_id=owner.tenant_id, brand_id=owner.brand_id, business_date=owner.business_date)


def attempts_of(entries: Iterable[Entry]) -> set[UUID]:
    """The attempts that the letters name."""
    return {attempt for entry in entries if (attempt := _attempt(entry)) is not None}


def age(entry: Entry) -> tuple[datetime, Any]:
    """Sorts the oldest first; letters without a date before all."""
    return entry.died_at or datetime.min.replace(tzinfo=UTC), entry.id


def _attempt(entry: Entry) -> UUID | None:
    try:
        return UUID(entry.attempt_id or "")
    except ValueError:
        return None
