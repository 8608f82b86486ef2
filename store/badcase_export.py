"""Labelled answers for regression files (3-results §3.3)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

import asyncpg
import msgspec

from domain.regression import RegressionCase
from store.database import Pool
from store.statements import statements

SQL = statements("badcases")

PAGE: Final = 200
MENTION_KEYS: Final = ("name", "count", "position", "first_offset")


@dataclass(frozen=True, slots=True)
class LabelledAnswer:
    """A label with what it is about, all but the body, which the raw store has under `raw_answer_key`."""

    attempt_id: UUID
    reason: str
    label: dict[str, Any]
    about: dict[str, Any]
    raw_answer_key: str | None
    body_sha256: str | None

    @property
    def id(self) -> str:
        """The same in every export."""
        return f"{self.attempt_id}:{self.reason}"

    def is_of(self, body: bytes) -> bool:
        """Whether the label was put on this very body."""
        return self.body_sha256 == sha256(body).hexdigest()

    def with_body(self, body: str) -> RegressionCase:
        """The case as a regression file has it."""
        mentions = [{key: mention[key] for key in MENTION_KEYS} for mention in self.label["mentions"]]
        said = {"is_answer": self.label["is_answer"], "absence": self.label["absence"], "mentions": mentions}
        given = {"id": self.id, "reason": self.reason, "note": self.label["note"], "body": body, "expected": said}
        return msgspec.convert({**self.about, **given}, RegressionCase)


async def labelled_answers(pool: Pool, tenant_id: int | None, brand_id: int | None) -> AsyncIterator[LabelledAnswer]:
    """Every label that stands, also on answers that a later one replaced; None: of any tenant, any brand."""
    last: asyncpg.Record | None = None
    while True:
        after = (None, None) if last is None else (last["attempt_id"], last["reason"])
        rows = await pool.fetch(SQL["regression_cases"], tenant_id, brand_id, *after, PAGE)
        for row in rows:
            yield LabelledAnswer(**row)
        if len(rows) < PAGE:
            return
        last = rows[-1]
