"""Raw facts of answers: runs, parse results, citations, badcases (3-results §3.1; upsert rule of dispatch §12.3)."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

import asyncpg
import orjson

from domain.parsing.mentions import BrandName, Mention
from domain.parsing.result import EXTRACTOR_VERSION, ParsedAnswer
from store.database import Connection, Pool
from store.statements import statements

SQL = statements("facts")

COMPETITOR_PREFIX = "competitor:"

CITATION_COLUMNS: Final = (
    "run_id", "ordinal", "tenant_id", "page_url", "normalized_url", "domain", "site_name", "title", "citation_hash",
    "owner",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """What the answer of one attempt belongs to. `outcome`: how the attempt ended, None while it is open."""

    attempt_id: UUID
    task_id: int
    tenant_id: int
    brand_id: int
    business_date: date
    ai_platform_id: str
    run_mode: str
    question: str
    outcome: str | None = None


@dataclass(frozen=True, slots=True)
class BrandNames:
    """The names and domains an answer about one brand is searched for."""

    names: tuple[BrandName, ...]
    own_domains: tuple[str, ...]
    competitor_domains: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ParseFact:
    """A parsed answer. `search_hit`: the platform searched for it."""

    parsed: ParsedAnswer
    search_hit: bool


@dataclass(frozen=True, slots=True)
class RunFact:
    """One attempt's run: succeeded exactly when `parse` is there; else `failure_kind` and `failure_reason` say why."""

    attempt_id: UUID
    tenant_id: int
    run_at: datetime
    parse: ParseFact | None = None
    failure_kind: str | None = None
    failure_reason: str | None = None
    provider_model: str | None = None
    request_id: str | None = None
    wire: str | None = None
    finish_reason: str | None = None
    answer_chars: int | None = None
    raw_answer_key: str | None = None
    badcase: tuple[str, float] | None = None
    # Which extractor judged the body, also where it found no answer.
    extractor_version: str | None = EXTRACTOR_VERSION

    @property
    def status(self) -> str:
        return "failed" if self.parse is None else "succeeded"


async def read_contexts(pool: Pool, attempts: Collection[tuple[UUID, int]]) -> dict[UUID, AttemptContext]:
    """The contexts of these (attempt, tenant) pairs; an unknown attempt, or another tenant's, is left out."""
    rows = await pool.fetch(SQL["read_contexts"], [each[0] for each in attempts], [each[1] for each in attempts])
    return {row["attempt_id"]: AttemptContext(**row) for row in rows}


async def read_brands(pool: Pool, brands: Collection[tuple[int, int]]) -> dict[int, BrandNames]:
    """Names by brand id, of these (tenant, brand) pairs."""
    rows = await pool.fetch(SQL["read_brands"], [each[0] for each in brands], [each[1] for each in brands])
    return {row["brand_id"]: _brand_names(row) for row in rows}


def _brand_names(row: asyncpg.Record) -> BrandNames:
    rivals: list[dict[str, Any]] = row["competitors"]
    names = [BrandName("brand", "brand", row["name"], tuple(row["aliases"]))]
    names += [
        BrandName(f"{COMPETITOR_PREFIX}{each['id']}", "competitor", each["name"], tuple(each["aliases"]))
        for each in rivals
    ]
    domains = tuple(domain for each in rivals for domain in each["domains"])
    return BrandNames(tuple(names), tuple(row["domains"]), domains)


async def write_facts(connection: Connection, facts: Sequence[RunFact]) -> set[UUID]:
    """Upsert the runs and rewrite the parse facts of those taken; returns the attempts whose run was taken.

    At most one fact per business key in one call. Whatever the order and repetition of calls, the facts end the same.
    """
    if not facts:
        return set()
    rows = await _upsert_runs(connection, facts)
    taken = {row["attempt_id"]: row["id"] for row in rows}
    if overwritten := [row["id"] for row in rows if row["overwritten"]]:
        await connection.execute(SQL["forget_parse"], overwritten)
    await write_parses(connection, [(taken[fact.attempt_id], fact) for fact in facts if fact.attempt_id in taken])
    return set(taken)


async def write_parses(connection: Connection, runs: Sequence[tuple[int, RunFact]]) -> None:
    """Write what was parsed of these runs, whose older citations are gone: results, citations, badcases."""
    parsed = [(run_id, fact.parse) for run_id, fact in runs if fact.parse is not None]
    if parsed:
        await _write_parse_results(connection, parsed)
        await _write_citations(connection, runs)
    await _write_badcases(connection, runs)


async def _upsert_runs(connection: Connection, facts: Sequence[RunFact]) -> list[asyncpg.Record]:
    return await connection.fetch(
        SQL["upsert_runs"],
        [fact.attempt_id for fact in facts],
        [fact.status for fact in facts],
        [fact.failure_kind for fact in facts],
        [fact.failure_reason for fact in facts],
        [fact.provider_model for fact in facts],
        [fact.request_id for fact in facts],
        [fact.wire for fact in facts],
        [fact.finish_reason for fact in facts],
        [fact.answer_chars for fact in facts],
        [fact.raw_answer_key for fact in facts],
        [fact.run_at for fact in facts],
        [fact.extractor_version for fact in facts],
    )


async def _write_parse_results(connection: Connection, parsed: Sequence[tuple[int, ParseFact]]) -> None:
    answers = [fact.parsed for _, fact in parsed]
    await connection.execute(
        SQL["write_parse_results"],
        [run_id for run_id, _ in parsed],
        [each.extractor_version for each in answers],
        [fact.search_hit for _, fact in parsed],
        [each.brand_mentioned for each in answers],
        [each.brand_count for each in answers],
        [each.brand_position for each in answers],
        [each.absence for each in answers],
        [each.share_of_voice for each in answers],
        [sum(mention.count for mention in each.mentions if mention.role == "competitor") for each in answers],
        [orjson.dumps([mention_row(mention) for mention in each.mentions]).decode() for each in answers],
        [len(each.citations) for each in answers],
        [sum(citation.owner == "own" for citation in each.citations) for each in answers],
        [each.confidence for each in answers],
    )


def mention_row(mention: Mention) -> dict[str, Any]:
    """As `question_monitor_parse_results.mentions` lists it."""
    rival = mention.key.removeprefix(COMPETITOR_PREFIX) if mention.role == "competitor" else None
    return {
        "name": mention.name,
        "role": mention.role,
        "competitor_id": None if rival is None else int(rival),
        "count": mention.count,
        "first_offset": mention.first_offset,
        "position": mention.position,
    }


async def _write_citations(connection: Connection, runs: Iterable[tuple[int, RunFact]]) -> None:
    """By COPY: nine rows of ten are citations, and the runs' older ones are gone, so none can be in conflict."""
    rows = [
        (
            run_id,
            each.ordinal,
            fact.tenant_id,
            each.raw_url,
            each.normalized_url,
            each.domain,
            each.site_name,
            each.title,
            each.citation_hash,
            each.owner,
        )
        for run_id, fact in runs
        if fact.parse is not None
        for each in fact.parse.parsed.citations
    ]
    if rows:
        await connection.copy_records_to_table("monitoring_citation_facts", records=rows, columns=CITATION_COLUMNS)


async def _write_badcases(connection: Connection, rewritten: Iterable[tuple[int, RunFact]]) -> None:
    cases = [(run_id, *fact.badcase) for run_id, fact in rewritten if fact.badcase is not None]
    if not cases:
        return
    await connection.execute(
        SQL["write_badcases"],
        [run_id for run_id, _, _ in cases],
        [reason for _, reason, _ in cases],
        [confidence for _, _, confidence in cases],
    )
