"""Runs with their raw answers stored, the facts of an older version in place of today's, and all facts to compare."""

from typing import Any, Final

from activities.interpret import interpret
from store.database import Pool, transaction
from store.facts import read_brands, read_contexts, write_facts
from store.projection_tables import PROJECTIONS
from store.raw_answers import RawAnswers, raw_answer_key
from tests.support.results import result
from tests.support.world import BUSINESS_DATE, Desktop, Lease, World

# What differs between two ways to the same facts: ids given anew and moments of writing.
FACTS: Final = {
    "question_monitor_runs": "to_jsonb(t) - 'updated_at'",
    "question_monitor_parse_results": "to_jsonb(t) - 'parsed_at'",
    "monitoring_citation_facts": "to_jsonb(t)",
    "monitoring_parse_badcases": "to_jsonb(t) - array['id', 'created_at', 'version']",
}


async def figures(pool: Pool) -> dict[str, list[Any]]:
    """All rows of the projections."""
    row = "to_jsonb(t) - 'rebuilt_at'"
    return {
        each.table: await pool.fetchval(f"select array_agg({row} order by {row}) from {each.table} t")
        for each in PROJECTIONS
    }


async def facts(pool: Pool) -> dict[str, list[Any]]:
    """All rows of the fact tables."""
    return {
        table: await pool.fetchval(f"select array_agg({row} order by {row}) from {table} t")
        for table, row in FACTS.items()
    }


async def ingested(world: World, client: Desktop, raw: RawAnswers, body: str, **lease: Any) -> int:
    """A finished run of its own question, as ingest writes it; its id."""
    return await stored(world, client, raw, await world.leased(client, status="in_progress", **lease), body)


async def stored(world: World, client: Desktop, raw: RawAnswers, lease: Lease, body: str) -> int:
    """The answer of this attempt: raw body and facts."""
    key = raw_answer_key(world.tenant_id, world.brand_id, BUSINESS_DATE, lease.attempt_id)
    await raw.put(key, body.encode())
    contexts = await read_contexts(world.pool, [(lease.attempt_id, world.tenant_id)])
    brands = await read_brands(world.pool, [(world.tenant_id, world.brand_id)])
    context = contexts[lease.attempt_id]
    outcome = interpret(result(world, lease, client, raw=body), context, brands[world.brand_id], key)
    async with transaction(world.pool) as connection:
        assert await write_facts(connection, [outcome.fact])
    found: int = await world.pool.fetchval(
        "select id from question_monitor_runs where attempt_id = $1", lease.attempt_id
    )
    return found


async def as_an_older_version_read_it(pool: Pool, *run_ids: int) -> None:
    """Answers without the half of their citations and of their mentions, in another words' confidence."""
    await pool.execute("update question_monitor_runs set extractor_version = 'v0' where id = any($1)", run_ids)
    await pool.execute(
        "update question_monitor_parse_results set brand_mentioned = false, brand_mention_count = 0, mentions = '[]',"
        " brand_position = null, confidence = 0.9, citation_count = 0, extractor_version = 'v0' where run_id = any($1)",
        run_ids,
    )
    await pool.execute("delete from monitoring_citation_facts where ordinal > 1 and run_id = any($1)", run_ids)
    await pool.execute("delete from monitoring_parse_badcases where run_id = any($1)", run_ids)


async def as_an_older_version_refused_it(pool: Pool, run_id: int) -> None:
    """A body that nobody could read then."""
    await as_an_older_version_read_it(pool, run_id)
    await pool.execute("delete from question_monitor_parse_results where run_id = $1", run_id)
    await pool.execute("delete from monitoring_citation_facts where run_id = $1", run_id)
    await pool.execute(
        "update question_monitor_runs set status = 'failed', failure_kind = 'error', failure_reason = 'no format',"
        " wire = 'unknown', finish_reason = null, answer_chars = 0 where id = $1",
        run_id,
    )
    await pool.execute(
        "insert into monitoring_parse_badcases (tenant_id, run_id, reason, confidence, attempt_id, raw_answer_key)"
        " select tenant_id, id, 'unknown_format', 0, attempt_id, raw_answer_key from question_monitor_runs"
        " where id = $1",
        run_id,
    )


async def as_an_older_version_took_it(pool: Pool, run_id: int) -> None:
    """A body without an answer, taken for one then."""
    await as_an_older_version_read_it(pool, run_id)
    await pool.execute(
        "update question_monitor_runs set status = 'succeeded', failure_kind = null, failure_reason = null"
        " where id = $1",
        run_id,
    )
    await pool.execute(
        "insert into question_monitor_parse_results (run_id, tenant_id, run_mode, brand_mentioned, brand_mention_count)"
        " select id, tenant_id, run_mode, false, 0 from question_monitor_runs where id = $1",
        run_id,
    )
    await pool.execute(
        "insert into monitoring_citation_facts (run_id, ordinal, tenant_id, page_url, citation_hash, owner)"
        " select id, 1, tenant_id, 'https://example.com/', 'hash', 'other' from question_monitor_runs where id = $1",
        run_id,
    )
