"""Any order and any repetition of a set of results leaves the same facts (3-results §3.2)."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from activities.ingest import IngestShard
from broker.consumer import Received
from domain.transport import ResultMessage
from store.database import Pool
from store.raw_answers import RawAnswers
from store.residents import take
from tests.support.results import chat_answer, encode, failure, result
from tests.support.world import Desktop, Lease, World, ago

NAME = "ingest/0"
ATTEMPTS = 3

FACTS = """
select r.status, r.failure_reason, r.provider_model, r.retry_count, r.raw_answer_key is not null as has_raw,
    p.brand_mention_count, p.citation_count,
    (select array_agg(c.page_url order by c.ordinal) from monitoring_citation_facts c where c.run_id = r.id) as pages
from question_monitor_runs r
left join question_monitor_parse_results p on p.run_id = r.id
join monitoring_collect_tasks t on t.question_id = r.question_id
where t.id = $1
"""

NOTHING_LEFT_OVER = """
select (select count(*) from desktop_tasks where monitor_task_id = $1
        and status in ('queued', 'in_progress', 'unknown'))
    + (select count(*) from desktop_task_attempts where monitor_task_id = $1 and ended_at is null)
"""


class Once:
    """A shard's queue that gives these batches and then ends."""

    def __init__(self, batches: Sequence[Sequence[ResultMessage]]) -> None:
        self._batches = batches

    async def batches(self) -> AsyncGenerator[list[Received]]:
        for batch in self._batches:
            yield [Received(encode(message), message.attempt_id, 0, {}, 0, 0) for message in batch]

    async def ack(self, batch: Iterable[Received]) -> None:
        pass


async def attempts_of_one_task(world: World, client: Desktop) -> list[Lease]:
    """Two attempts that were revoked, and the running one, all of one business task."""
    current = await world.leased(client, status="in_progress")
    leases = []
    for number in range(ATTEMPTS - 1):
        old = await world.leased(client, status="in_progress")
        await world.set("desktop_tasks", old.task_id, status="aborted", monitor_task_id=current.business_id)
        await world.set(
            "desktop_task_attempts", old.attempt_id, monitor_task_id=current.business_id, ended_at=ago(seconds=5),
            leased_at=ago(minutes=10 - number), outcome="revoked",
        )  # fmt: skip
        leases.append(Lease(old.task_id, current.business_id, old.attempt_id, old.token))
    return [*leases, current]


def messages_of(
    world: World, client: Desktop, leases: Sequence[Lease], successes: Sequence[bool]
) -> list[ResultMessage]:
    messages = []
    for number, (lease, succeeds) in enumerate(zip(leases, successes, strict=True)):
        body = chat_answer("Acme. " * (number + 1), model=f"model-{number}", urls=[f"https://example.com/{number}"])
        answer = result(world, lease, client, raw=body)
        messages.append(answer if succeeds else failure(world, lease, client, f"failure {number}"))
    return messages


async def facts_after(pool: Pool, raw: RawAnswers, successes: Sequence[bool], order: Sequence[Sequence[int]]) -> Any:
    """The facts of a new task after these batches of results, given by attempt number."""
    world = await World.create(pool)
    client = await world.client()
    leases = await attempts_of_one_task(world, client)
    messages = messages_of(world, client, leases, successes)
    batches = [[messages[number] for number in batch] for batch in order]

    async def no_dead_letters(message: Received, reason: str, shard: int) -> None:
        raise AssertionError(reason)

    epoch = await take(pool, NAME, "property")
    await IngestShard(pool, lambda _: Once(batches), raw, no_dead_letters).run(NAME, epoch, 0)
    task = leases[0].business_id
    assert await pool.fetchval(NOTHING_LEFT_OVER, task) == 0
    business = await world.business(task)
    assert business["status"] == ("completed" if any(successes) else "pending")
    return [dict(row) for row in await pool.fetch(FACTS, task)]


def in_batches(numbers: Sequence[int], cut: int) -> list[Sequence[int]]:
    return [part for part in (numbers[:cut], numbers[cut:]) if part]


@settings(max_examples=15, deadline=timedelta(seconds=30), suppress_health_check=list(HealthCheck))
@given(
    successes=st.tuples(*[st.booleans()] * ATTEMPTS),
    order=st.permutations(range(ATTEMPTS)),
    repeats=st.lists(st.integers(0, ATTEMPTS - 1), max_size=4),
    cut=st.integers(0, ATTEMPTS + 4),
)
async def test_any_order_and_repetition_gives_the_same_facts(
    pool: Pool,
    tmp_path: Path,
    successes: tuple[bool, ...],
    order: list[int],
    repeats: list[int],
    cut: int,
) -> None:
    raw = RawAnswers(f"file://{tmp_path}/raw")
    in_order = await facts_after(pool, raw, successes, [[number] for number in range(ATTEMPTS)])
    shuffled = await facts_after(pool, raw, successes, in_batches([*order, *repeats], cut))
    assert shuffled == in_order


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
async def test_the_newest_attempts_answer_is_the_one_that_stays(pool: Pool, tmp_path: Path, order: list[int]) -> None:
    [facts] = await facts_after(
        pool, RawAnswers(f"file://{tmp_path}/raw"), (True, True, True), [[each] for each in order]
    )
    assert facts["provider_model"] == "model-2"
