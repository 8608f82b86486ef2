"""What the database knows of dead letters: whose they are, and who replayed or dropped them (3-results §3.2)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

from store.database import Pool
from store.statements import statements

SQL = statements("dead_letters")


@dataclass(frozen=True, slots=True)
class LetterOwner:
    """The brand-day of an attempt; results of `shard_key` share a shard."""

    attempt_id: UUID
    tenant_id: int
    brand_id: int
    business_date: date
    shard_key: str


@dataclass(frozen=True, slots=True)
class LetterEvent:
    """One letter's line in the audit. `tenant_id` None: nobody knows whose it is."""

    tenant_id: int | None
    subject: str
    detail: Mapping[str, Any]


async def find_owners(pool: Pool, attempts: Collection[UUID]) -> dict[UUID, LetterOwner]:
    """By attempt; unknown ones are left out."""
    rows = await pool.fetch(SQL["find_owners"], list(attempts))
    return {row["attempt_id"]: LetterOwner(**row) for row in rows}


async def audit_letters(pool: Pool, actor: str, action: str, events: Sequence[LetterEvent]) -> None:
    """`action`: dlq_replay or dlq_drop."""
    await pool.execute(
        SQL["audit_letters"],
        actor,
        action,
        [event.tenant_id for event in events],
        [event.subject for event in events],
        [dict(event.detail) for event in events],
    )
