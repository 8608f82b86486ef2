"""Doubtful answers and what people say of them (3-results §3.1, §3.3; V3 §2.2.4).

A label decides the figures of its run for as long as the run is still of that answer; what the extractor had said is
kept, and put back when the label is taken back. Locks: the brand-day's mark, the run, the case; as in ingest.
"""

from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

import asyncpg

from domain.answers import read_answer
from domain.errors import Conflict, NotFound, StaleVersion
from domain.labels import NO_ANSWER, Figures, Label, check_offsets, figures_of
from store.catalog import Reach
from store.database import Connection, Pool, transaction
from store.facts import COMPETITOR_PREFIX, BrandNames, read_brands
from store.projections import DayKey, mark_day
from store.raw_answers import RawAnswers
from store.statements import statements

SQL = statements("badcases")

Record = asyncpg.Record

NEWEST: Final = 2**63 - 1
MAX_REASON: Final = 500


@dataclass(frozen=True, slots=True)
class CaseFilter:
    """Which cases to list; None: any. `since` and `until`: business dates, both included."""

    brand_id: int | None = None
    reason: str | None = None
    platform: str | None = None
    labelled: bool | None = None
    since: date | None = None
    until: date | None = None

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.brand_id, self.reason, self.platform, self.labelled, self.since, self.until


@dataclass(frozen=True, slots=True)
class Labelled:
    """A case after its label was put on or taken back. `decides`: the run's figures changed with it."""

    version: int
    decides: bool


async def list_cases(pool: Pool, reach: Reach, wanted: CaseFilter, before: int | None, limit: int) -> list[Record]:
    """Cases of the caller's workspaces, newest first, those with a smaller id than `before`."""
    scope = (reach.tenant_id, list(reach.workspace_ids), NEWEST if before is None else before)
    return await pool.fetch(SQL["list_cases"], *scope, *wanted.arguments, limit)


async def list_cases_of_all(
    pool: Pool, tenant_id: int | None, wanted: CaseFilter, before: int | None, limit: int
) -> list[Record]:
    """The same for the command; `tenant_id` None: every tenant's."""
    before = NEWEST if before is None else before
    return await pool.fetch(SQL["list_cases_of_all"], tenant_id, before, *wanted.arguments, limit)


async def read_case(where: Pool | Connection, reach: Reach | None, case_id: int) -> Record:
    """One case with its run and the run's figures; NotFound for one that is missing or out of reach (None: all)."""
    scope = (None, None) if reach is None else (reach.tenant_id, list(reach.workspace_ids))
    row = await where.fetchrow(SQL["read_case"], case_id, *scope)
    if row is None:
        raise NotFound(f"no badcase {case_id}")
    return row


async def read_body(raw_answers: RawAnswers, case: Record) -> bytes | None:
    """The raw answer that the case is about; None when there is none, or none any more. RawStoreUnavailable."""
    if case["raw_answer_key"] is None:
        return None
    try:
        return await raw_answers.get(case["raw_answer_key"])
    except NotFound:
        return None


async def put_label(
    pool: Pool, raw_answers: RawAnswers, case: Record, label: Label, *, expected: int, actor: str
) -> Labelled:
    """Put a label on, or another in its place; `case` as it was read.

    StaleVersion unless `expected` is the case's version; UnknownName and InvalidInput as `figures_of`; NotFound when
    the case went with the answer that it was about; RawStoreUnavailable.
    """
    names = (await read_brands(pool, [(case["tenant_id"], case["brand_id"])]))[case["brand_id"]]
    figures = figures_of(label, names.names)
    body = await read_body(raw_answers, case)
    if body is not None:
        check_offsets(label, read_answer(body).text)
    said = _said(label, figures)
    async with transaction(pool) as connection:
        held = await _hold(connection, case, expected)
        if held.stands:
            await connection.execute(SQL["keep_figures"], case["id"])
            if held.decides:
                await _put_back(connection, case)
            await _decide(connection, case, label, figures)
        digest = None if body is None else sha256(body).hexdigest()
        about = _about(case, names)
        version = await connection.fetchval(SQL["write_label"], case["id"], said, actor, held.said, about, digest)
    return Labelled(version, held.stands)


async def take_label_back(pool: Pool, case: Record, *, expected: int, actor: str) -> Labelled:
    """The case is open again, its run says what the extractor had said. StaleVersion, NotFound; Conflict: no label."""
    async with transaction(pool) as connection:
        held = await _hold(connection, case, expected)
        if held.said is None:
            raise Conflict(f"badcase {case['id']} has no label")
        restores = held.stands and held.decides
        if restores:
            await _put_back(connection, case)
        version = await connection.fetchval(SQL["take_label_back"], case["id"], actor, held.said)
    return Labelled(version, restores)


@dataclass(frozen=True, slots=True)
class _Held:
    """A case whose row is held. `said`: its label; `decides`: the run's figures are that label's, if it `stands`."""

    stands: bool
    decides: bool
    said: dict[str, Any] | None


async def _hold(connection: Connection, case: Record, expected: int) -> _Held:
    await mark_day(connection, DayKey(case["tenant_id"], case["brand_id"], case["business_date"]))
    attempt_id: UUID | None = await connection.fetchval(SQL["lock_run"], case["run_id"])
    row = await connection.fetchrow(SQL["lock_case"], case["id"])
    if row is None:
        raise NotFound(f"no badcase {case['id']}: another answer has taken the place of the one it was about")
    if row["version"] != expected:
        version = row["version"]
        raise StaleVersion(
            f"badcase {case['id']} is at version {version}, not {expected}; read it again", version=version
        )
    return _Held(row["attempt_id"] in (None, attempt_id), row["decides"], row["label"])


async def _put_back(connection: Connection, case: Record) -> None:
    await connection.execute(SQL["put_back_run"], case["id"])
    await connection.execute(SQL["forget_facts"], case["run_id"])
    await connection.execute(SQL["put_back_parse"], case["id"])
    await connection.execute(SQL["put_back_citations"], case["id"])


async def _decide(connection: Connection, case: Record, label: Label, figures: Figures) -> None:
    if not label.is_answer:
        reason = (label.note or "a person found no answer in it")[:MAX_REASON]
        await connection.execute(SQL["forget_facts"], case["run_id"])
        await connection.execute(SQL["fail_run"], case["run_id"], NO_ANSWER, reason)
        return
    await connection.execute(
        SQL["write_figures"],
        case["run_id"],
        case["id"],
        case["extractor_version"] or "v1",
        figures.brand_mention_count,
        figures.brand_position,
        figures.absence,
        figures.share_of_voice,
        figures.competitor_mention_count,
        _mentions(figures),
    )


def _mentions(figures: Figures) -> list[dict[str, Any]]:
    """As the extractor's are stored."""
    return [
        {
            "name": owner.name,
            "role": owner.role,
            "competitor_id": int(owner.key.removeprefix(COMPETITOR_PREFIX)) if owner.role == "competitor" else None,
            "count": mention.count,
            "first_offset": mention.first_offset,
            "position": mention.position,
        }
        for owner, mention in figures.mentions
    ]


def _said(label: Label, figures: Figures) -> dict[str, Any]:
    """The label as it is shown, with each name as the settings have it."""
    keys = ("name", "role", "count", "first_offset", "position")
    mentions = [{key: mention[key] for key in keys} for mention in _mentions(figures)]
    return {"is_answer": label.is_answer, "absence": label.absence, "mentions": mentions, "note": label.note}


def _about(case: Record, names: BrandNames) -> dict[str, Any]:
    """What a regression test needs of the case, as it is now: names and questions change."""
    brand, *rivals = ({"name": name.name, "aliases": list(name.aliases)} for name in names.names)
    return {
        "platform": case["platform"],
        "question": case["question"],
        "brand": brand,
        "competitors": rivals,
        "own_domains": list(names.own_domains),
        "competitor_domains": list(names.competitor_domains),
        "wire": case["wire"] if case["stands"] else None,
        "extractor_version": case["extractor_version"],
    }
