"""Runs whose raw answers are read again, and the facts that are rewritten then (3-results §3.3).

Optimistic: a run is read without a lock, judged outside any transaction, and written only if it is still as it was.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import asyncpg

from domain.parsing.result import EXTRACTOR_VERSION, Citation
from store.database import Connection, Pool, transaction
from store.facts import ParseFact, RunFact, mention_row, write_parses
from store.listen import PROJECTION, wake
from store.projections import DayKey
from store.statements import statements

SQL = statements("reparse")

DAYS: Final = 16
"""Brand-days that one statement looks through."""

LARGEST_ID: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Selection:
    """Which runs are asked for. `again`: also those that this version has read, for names may have changed."""

    tenant_id: int | None = None
    brand_id: int | None = None
    first_day: date | None = None
    last_day: date | None = None
    platform: str | None = None
    only_failed: bool = False
    only_badcases: bool = False
    again: bool = False


def start_of(selection: Selection) -> DayKey:
    """Before the first day that the selection can mean."""
    day_before = selection.first_day - timedelta(days=1) if selection.first_day and selection.brand_id else date.min
    return DayKey(selection.tenant_id or 0, selection.brand_id or 0, day_before)


async def next_runs(pool: Pool, selection: Selection, after: DayKey) -> tuple[list[int], DayKey | None]:
    """The runs to read again among the next days that have any, and the last of these days; None when there are none.

    A brand without its tenant means every tenant: the caller gives both.
    """
    rows = await pool.fetch(
        SQL["next_days"],
        after.tenant_id, after.brand_id, after.business_date, selection.tenant_id or LARGEST_ID,
        selection.brand_id or LARGEST_ID, DAYS, selection.first_day, selection.last_day, selection.again,
        EXTRACTOR_VERSION, selection.platform, selection.only_failed, selection.only_badcases,
    )  # fmt: skip
    wanted = [run_id for row in rows for run_id in row["wanted"]]
    if len(rows) < DAYS:
        return wanted, None
    last = rows[-1]
    return wanted, DayKey(last["tenant_id"], last["brand_id"], last["business_date"])


async def owner_of_brand(pool: Pool, brand_id: int) -> int | None:
    """The brand's tenant; None when there is no such brand."""
    found: int | None = await pool.fetchval(SQL["find_brand"], brand_id)
    return found


async def has_platform(pool: Pool, platform: str) -> bool:
    """Whether the platform is known."""
    return bool(await pool.fetchval(SQL["has_platform"], platform))


@dataclass(frozen=True, slots=True)
class Picture:
    """All that a reading decides of one run, comparable: columns of the run, parse result, citations, open badcases."""

    run: tuple[str | None, ...]
    parse: dict[str, Any] | None
    citations: tuple[tuple[Any, ...], ...]
    cases: tuple[tuple[str, float | None], ...]

    @property
    def succeeded(self) -> bool:
        """Whether there is an answer."""
        return self.parse is not None

    @property
    def mentions(self) -> list[dict[str, Any]]:
        """Brands and competitors found."""
        return self.parse["mentions"] if self.parse else []


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run as it was read. `unsearched`: a competitor was added after its answer had been searched for names."""

    id: int
    tenant_id: int
    brand_id: int
    business_date: date
    ai_platform_id: str
    run_mode: str
    attempt_id: UUID
    raw_answer_key: str
    run_at: datetime
    updated_at: datetime
    question: str
    failure_kind: str | None
    provider_model: str | None
    request_id: str | None
    unsearched: bool
    picture: Picture

    @property
    def day(self) -> DayKey:
        """Whose figures it is part of."""
        return DayKey(self.tenant_id, self.brand_id, self.business_date)


async def read_runs(pool: Pool, run_ids: Collection[int]) -> list[StoredRun]:
    """These runs by id, without those that have no raw answer."""
    return [_stored(row) for row in await pool.fetch(SQL["read_runs"], sorted(run_ids))]


def _stored(row: asyncpg.Record) -> StoredRun:
    known = dict(row)
    run, parse = tuple(known.pop("run")), known.pop("parse")
    citations = tuple(tuple(each) for each in known.pop("citations"))
    cases = tuple(tuple(each) for each in known.pop("open_cases"))
    _, failure_kind, _, provider_model, request_id, *_ = run
    picture = Picture(run, parse, citations, cases)
    return StoredRun(
        **known, failure_kind=failure_kind, provider_model=provider_model, request_id=request_id, picture=picture
    )


def picture_of(fact: RunFact) -> Picture:
    """What the database would hold once the fact is written."""
    chars = None if fact.answer_chars is None else str(fact.answer_chars)
    columns = (fact.status, fact.failure_kind, fact.failure_reason, fact.provider_model, fact.request_id, fact.wire,
               fact.finish_reason, chars)  # fmt: skip
    parsed = fact.parse.parsed if fact.parse else None
    citations = tuple(_citation_row(each) for each in parsed.citations) if parsed else ()
    cases = (fact.badcase,) if fact.badcase else ()
    return Picture(columns, _parse_row(fact.parse) if fact.parse else None, citations, cases)


def _parse_row(fact: ParseFact) -> dict[str, Any]:
    parsed = fact.parsed
    return {
        "search_hit": fact.search_hit,
        "brand_mentioned": parsed.brand_mentioned,
        "brand_mention_count": parsed.brand_count,
        "brand_position": parsed.brand_position,
        "absence": parsed.absence,
        "share_of_voice": parsed.share_of_voice,
        "competitor_mention_count": sum(each.count for each in parsed.mentions if each.role == "competitor"),
        "mentions": [mention_row(each) for each in parsed.mentions],
        "citation_count": len(parsed.citations),
        "own_citation_count": sum(each.owner == "own" for each in parsed.citations),
        "confidence": parsed.confidence,
    }


def _citation_row(citation: Citation) -> tuple[Any, ...]:
    return (citation.ordinal, citation.raw_url, citation.normalized_url, citation.domain, citation.site_name,
            citation.title, citation.citation_hash, citation.owner)  # fmt: skip


async def rewrite(pool: Pool, changed: Sequence[tuple[StoredRun, RunFact]], unchanged: Sequence[StoredRun]) -> set[int]:
    """Write the new facts and stamp the others as read, in one transaction; returns the ids of the runs it took.

    Left alone: a run that a newer answer, a label or another reparse has changed since it was read. Days are marked
    where facts change, and where an answer that names no new competitor is no longer missing for it.
    """
    runs = [*(run for run, _ in changed), *unchanged]
    if not runs:
        return set()
    async with transaction(pool) as connection:
        await _mark(connection, {*(run.day for run, _ in changed), *(run.day for run in unchanged if run.unsearched)})
        taken = await _lock(connection, runs)
        await _rewrite(connection, [(run, fact) for run, fact in changed if run.id in taken])
        await connection.execute(SQL["stamp_runs"], [run.id for run in unchanged if run.id in taken], EXTRACTOR_VERSION)
    return taken


async def _mark(connection: Connection, days: Collection[DayKey]) -> None:
    if not days:
        return
    columns = zip(*((day.tenant_id, day.brand_id, day.business_date) for day in days), strict=True)
    await connection.execute(SQL["mark_days"], *map(list, columns))
    await wake(connection, PROJECTION)


async def _lock(connection: Connection, runs: Sequence[StoredRun]) -> set[int]:
    rows = await connection.fetch(
        SQL["lock_runs"],
        [run.id for run in runs],
        [run.attempt_id for run in runs],
        [run.updated_at for run in runs],
    )
    locked = {row["id"] for row in rows}
    labelled = await connection.fetch(SQL["labelled_among"], sorted(locked))
    return locked - {row["run_id"] for row in labelled}


async def _rewrite(connection: Connection, changed: Sequence[tuple[StoredRun, RunFact]]) -> None:
    if not changed:
        return
    ids, facts = [run.id for run, _ in changed], [fact for _, fact in changed]
    await connection.execute(
        SQL["rewrite_runs"],
        ids,
        [fact.status for fact in facts],
        [fact.failure_kind for fact in facts],
        [fact.failure_reason for fact in facts],
        [fact.provider_model for fact in facts],
        [fact.request_id for fact in facts],
        [fact.wire for fact in facts],
        [fact.finish_reason for fact in facts],
        [fact.answer_chars for fact in facts],
        [fact.extractor_version for fact in facts],
    )
    await connection.execute(SQL["forget_answers"], ids, [run.id for run, fact in changed if fact.parse is None])
    await _renew_cases(connection, ids, facts)
    await write_parses(connection, list(zip(ids, facts, strict=True)))


async def _renew_cases(connection: Connection, ids: Sequence[int], facts: Sequence[RunFact]) -> None:
    reasons = [fact.badcase[0] if fact.badcase else None for fact in facts]
    confidences = [fact.badcase[1] if fact.badcase else None for fact in facts]
    await connection.execute(SQL["close_cases"], ids, reasons)
    versions = [fact.extractor_version for fact in facts]
    await connection.execute(SQL["renew_cases"], ids, reasons, confidences, versions)
