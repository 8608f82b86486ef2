"""Dispatch §12.3: success wins, the last success wins, a failure never overwrites a success."""

from typing import Any

import pytest

from activities.interpret import interpret
from domain.transport import ResultMessage
from store.database import Pool, transaction
from store.facts import AttemptContext, RunFact, read_brands, read_contexts, write_facts
from tests.support.results import chat_answer, failure, result
from tests.support.world import Desktop, Lease, World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


async def context_of(world: World, lease: Lease) -> AttemptContext:
    return (await read_contexts(world.pool, [(lease.attempt_id, world.tenant_id)]))[lease.attempt_id]


async def fact_of(world: World, lease: Lease, message: ResultMessage) -> RunFact:
    context = await context_of(world, lease)
    brands = await read_brands(world.pool, [(world.tenant_id, world.brand_id)])
    return interpret(message, context, brands[world.brand_id], "raw/key").fact


async def write(world: World, *facts: RunFact) -> int:
    async with transaction(world.pool) as connection:
        return len(await write_facts(connection, facts))


async def two_attempts(world: World, client: Desktop) -> tuple[Lease, Lease]:
    """An older and a newer attempt of one business task."""
    older = await world.leased(client, status="in_progress")
    await world.set("desktop_task_attempts", older.attempt_id, leased_at=ago(minutes=2))
    other = await world.leased(client, status="in_progress")
    await world.set("desktop_task_attempts", other.attempt_id, monitor_task_id=older.business_id)
    return older, Lease(other.task_id, older.business_id, other.attempt_id, other.token)


async def run_of(world: World) -> dict[str, Any]:
    [row] = await world.pool.fetch("select * from question_monitor_runs")
    return dict(row)


async def test_a_success_stores_run_parse_result_and_citations(world: World) -> None:
    await world.pool.execute("update brands set domains = '{acme.com}'")
    rival = await world.pool.fetchval(
        "insert into competitors (tenant_id, brand_id, name, domains)"
        " values ($1, $2, 'Globex', '{globex.com}') returning id",
        world.tenant_id, world.brand_id,
    )  # fmt: skip
    client = await world.client()
    lease = await world.leased(client)
    urls = ["https://blog.acme.com/best?utm_source=x", "https://globex.com/", "https://notacme.com/a"]
    body = chat_answer("Globex is fine. Acme is better, and Acme is cheaper.", urls=urls)
    await write(world, await fact_of(world, lease, result(world, lease, client, raw=body)))
    run = await run_of(world)
    assert (run["status"], run["provider_model"], run["attempt_id"]) == ("succeeded", "qwen-max", lease.attempt_id)
    assert run["raw_answer_key"] == "raw/key"
    parsed = await world.pool.fetchrow("select * from question_monitor_parse_results")
    assert parsed is not None
    assert (parsed["brand_mentioned"], parsed["brand_mention_count"], parsed["brand_position"]) == (True, 2, 2)
    assert (parsed["competitor_mention_count"], parsed["citation_count"], parsed["own_citation_count"]) == (1, 3, 1)
    assert {each["competitor_id"] for each in parsed["mentions"]} == {None, rival}
    cited = await world.pool.fetch("select domain, owner from monitoring_citation_facts order by ordinal")
    assert [tuple(row) for row in cited] == [
        ("acme.com", "own"),
        ("globex.com", "competitor"),
        ("notacme.com", "other"),
    ]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_the_later_attempts_success_wins_in_whatever_order_they_arrive(
    world: World, order: tuple[int, int]
) -> None:
    client = await world.client()
    leases = await two_attempts(world, client)
    for number in order:
        body = chat_answer("Acme.", model=f"model-{number}", urls=[f"https://example.com/{number}"])
        await write(world, await fact_of(world, leases[number], result(world, leases[number], client, raw=body)))
    run = await run_of(world)
    assert (run["provider_model"], run["attempt_id"]) == ("model-1", leases[1].attempt_id)
    assert await world.pool.fetchval("select array_agg(page_url) from monitoring_citation_facts") == [
        "https://example.com/1"
    ]


async def test_a_failure_never_overwrites_a_success(world: World) -> None:
    client = await world.client()
    older, newer = await two_attempts(world, client)
    await write(world, await fact_of(world, older, result(world, older, client)))
    before = await run_of(world)
    assert await write(world, await fact_of(world, newer, failure(world, newer, client))) == 0
    assert await run_of(world) == before


async def test_a_success_overwrites_a_failure_even_an_older_one(world: World) -> None:
    client = await world.client()
    older, newer = await two_attempts(world, client)
    await write(world, await fact_of(world, newer, failure(world, newer, client, "no login")))
    failed = await run_of(world)
    assert (failed["status"], failed["failure_kind"], failed["failure_reason"]) == (
        "failed",
        "desktop_error",
        "no login",
    )
    assert await write(world, await fact_of(world, older, result(world, older, client))) == 1
    run = await run_of(world)
    assert (run["status"], run["failure_kind"], run["failure_reason"]) == ("succeeded", None, None)


async def test_the_later_failure_replaces_a_failure(world: World) -> None:
    client = await world.client()
    older, newer = await two_attempts(world, client)
    await write(world, await fact_of(world, newer, failure(world, newer, client, "second")))
    assert await write(world, await fact_of(world, older, failure(world, older, client, "first"))) == 0
    assert (await run_of(world))["failure_reason"] == "second"


async def test_the_same_attempt_again_rewrites_nothing(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client)
    fact = await fact_of(world, lease, result(world, lease, client))
    assert [await write(world, fact), await write(world, fact)] == [1, 0]


async def test_an_unreadable_body_is_a_failed_run_and_a_badcase(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client)
    await write(world, await fact_of(world, lease, result(world, lease, client, raw='{"what": ["is", "this"]}')))
    run = await run_of(world)
    assert (run["status"], run["failure_kind"]) == ("failed", "error")
    assert run["failure_reason"] == "qwen: no known answer format"
    assert await world.pool.fetchval("select reason from monitoring_parse_badcases") == "unknown_format"


async def test_a_labelled_badcase_survives_and_an_open_one_does_not(world: World) -> None:
    client = await world.client()
    older, newer = await two_attempts(world, client)
    odd = result(world, older, client, raw='{"what": 1}')
    await write(world, await fact_of(world, older, odd))
    await write(world, await fact_of(world, newer, result(world, newer, client)))
    assert await world.pool.fetchval("select count(*) from monitoring_parse_badcases") == 0
    await world.pool.execute(
        "insert into monitoring_parse_badcases (tenant_id, run_id, reason, labelled_at)"
        " select tenant_id, id, 'refusal_or_error', now() from question_monitor_runs"
    )
    again = await two_attempts(world, client)
    await world.set("desktop_task_attempts", again[1].attempt_id, monitor_task_id=newer.business_id)
    await write(world, await fact_of(world, again[1], result(world, again[1], client)))
    assert await world.pool.fetchval("select count(*) from monitoring_parse_badcases") == 1


async def test_text_that_postgresql_cannot_hold_is_replaced_not_refused(world: World) -> None:
    client = await world.client()
    lease = await world.leased(client)
    await write(world, await fact_of(world, lease, failure(world, lease, client, "broken \0 page")))
    assert (await run_of(world))["failure_reason"] == "broken \ufffd page"


async def test_another_tenants_attempt_has_no_context(world: World, pool: Pool) -> None:
    lease = await world.leased(await world.client())
    stranger = await World.create(pool, "Stranger")
    assert await read_contexts(pool, [(lease.attempt_id, stranger.tenant_id)]) == {}
