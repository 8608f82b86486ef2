"""Doubtful answers in a test's database, stored as ingest stores them."""

from activities.interpret import interpret
from domain.transport import ResultMessage
from store.database import transaction
from store.facts import read_brands, read_contexts, write_facts
from store.raw_answers import RawAnswers, raw_answer_key
from tests.support.results import chat_answer, result
from tests.support.world import BUSINESS_DATE, Lease, World

# "GO" may be the game or the brand of that name: nobody but a person can tell.
AMBIGUOUS = "Many teams choose GO for it. HIKARI is second."


async def store_answer(world: World, raw_answers: RawAnswers, lease: Lease, message: ResultMessage) -> int:
    """Read, keep and write one result's facts; returns its run."""
    context = (await read_contexts(world.pool, [(lease.attempt_id, world.tenant_id)]))[lease.attempt_id]
    brands = await read_brands(world.pool, [(world.tenant_id, world.brand_id)])
    key = raw_answer_key(world.tenant_id, world.brand_id, BUSINESS_DATE, lease.attempt_id)
    if message.raw is not None:
        await raw_answers.put(key, message.raw.encode())
    outcome = interpret(message, context, brands[world.brand_id], key)
    async with transaction(world.pool) as connection:
        await write_facts(connection, [outcome.fact])
    run: int = await world.pool.fetchval(
        "select r.id from question_monitor_runs r join monitoring_collect_tasks t on t.question_id = r.question_id"
        " and t.ai_platform_id = r.ai_platform_id where t.id = $1",
        lease.business_id,
    )
    return run


async def doubtful(world: World, raw_answers: RawAnswers, raw: str | None = None) -> int:
    """A badcase of a question of its own; returns its id. Without `raw`, the answer names the brand by the alias GO."""
    if raw is None:
        await world.pool.execute("update brands set aliases = '{GO}' where id = $1", world.brand_id)
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    message = result(world, lease, client, raw=raw or chat_answer(AMBIGUOUS))
    run = await store_answer(world, raw_answers, lease, message)
    case: int = await world.pool.fetchval("select id from monitoring_parse_badcases where run_id = $1", run)
    return case
