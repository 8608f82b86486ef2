"""Any order and any repetition of a set of results leaves the same facts, ends and counters (3-results §3.2)."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import timedelta
from itertools import pairwise
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
TASKS = 2
RESULTS = TASKS * ATTEMPTS

# What an attempt may come back with; only the first two are answers.
ANSWERS = ("mentions the brand", "denies to know it")
KINDS = (*ANSWERS, "rate limited", "unknown format", "desktop failed")

FACTS = """
select r.status, r.failure_kind, r.failure_reason, r.provider_model, r.retry_count, r.wire, r.answer_chars,
    r.raw_answer_key is not null as has_raw, p.brand_mentioned, p.brand_mention_count, p.absence, p.share_of_voice,
    p.mentions, p.citation_count, p.confidence,
    (select array_agg(c.ordinal || ' ' || c.page_url order by c.ordinal) from monitoring_citation_facts c
        where c.run_id = r.id) as pages,
    (select array_agg(b.reason order by b.reason) from monitoring_parse_badcases b where b.run_id = r.id) as badcases
from monitoring_collect_tasks t
left join question_monitor_runs r on r.question_id = t.question_id
left join question_monitor_parse_results p on p.run_id = r.id
where t.id = any($1::bigint[])
order by t.id
"""

ENDS = """
select t.status, t.active_task_id is null as is_free,
    (select count(*) from desktop_tasks d where d.monitor_task_id = t.id
        and d.status in ('queued', 'in_progress', 'unknown')) as live,
    (select count(*) from desktop_task_attempts a where a.monitor_task_id = t.id and a.ended_at is null) as open
from monitoring_collect_tasks t
where t.id = any($1::bigint[])
order by t.id
"""

COUNTERS = """
select b.completed_count, b.failed_count, b.skipped_count,
    b.completed_count = (select count(*) from monitoring_collect_tasks t
        where t.batch_id = b.id and t.status = 'completed') as agrees
from scheduled_batches b where b.id = $1
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


async def attempts_of_one_task(world: World, client: Desktop, batch: int) -> list[Lease]:
    """Two attempts that were revoked, and the running one, all of one business task."""
    current = await world.leased(client, status="in_progress", batch_id=batch)
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


def message_of(world: World, client: Desktop, lease: Lease, kind: str, number: int) -> ResultMessage:
    """A result whose wording tells which attempt it came from."""
    urls = [f"https://example.com/{number}", f"https://example.com/{number}/b", f"https://example.com/{number}"]
    match kind:
        case "mentions the brand":
            raw = chat_answer("Acme. " * (number + 1), model=f"model-{number}", urls=urls)
        case "denies to know it":
            raw = chat_answer("I have no information about Acme.", model=f"model-{number}", urls=urls[:1])
        case "rate limited":
            raw = f'{{"error": {{"code": "rate_limit_exceeded", "message": "slow down {number}"}}}}'
        case "unknown format":
            raw = f'{{"what": [{number}]}}'
        case _:
            return failure(world, lease, client, f"failure {number}")
    return result(world, lease, client, raw=raw)


async def picture_after(pool: Pool, raw: RawAnswers, kinds: Sequence[str], order: Sequence[Sequence[int]]) -> Any:
    """Facts, ends and counters of new tasks after these batches of results, given by number."""
    world = await World.create(pool)
    client = await world.client()
    batch = await world.batch()
    leases = [lease for _ in range(TASKS) for lease in await attempts_of_one_task(world, client, batch)]
    messages = [
        message_of(world, client, lease, kind, number)
        for number, (lease, kind) in enumerate(zip(leases, kinds, strict=True))
    ]

    async def no_dead_letters(message: Received, reason: str, shard: int) -> None:
        raise AssertionError(reason)

    batches = [[messages[number] for number in part] for part in order]
    epoch = await take(pool, NAME, "property")
    await IngestShard(pool, lambda _: Once(batches), raw, no_dead_letters).run(NAME, epoch, 0)
    tasks = sorted({lease.business_id for lease in leases})
    return {
        "facts": [dict(row) for row in await pool.fetch(FACTS, tasks)],
        "ends": [dict(row) for row in await pool.fetch(ENDS, tasks)],
        "counters": [dict(row) for row in await pool.fetch(COUNTERS, batch)],
    }


def answered(kinds: Sequence[str]) -> list[bool]:
    """Whether each task has an answer among its attempts."""
    return [any(kind in ANSWERS for kind in kinds[at : at + ATTEMPTS]) for at in range(0, RESULTS, ATTEMPTS)]


def in_batches(numbers: Sequence[int], cuts: Iterable[int]) -> list[Sequence[int]]:
    bounds = [0, *sorted(cuts), len(numbers)]
    return [numbers[start:end] for start, end in pairwise(bounds) if start < end]


@settings(max_examples=12, deadline=timedelta(seconds=30), suppress_health_check=list(HealthCheck))
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=RESULTS, max_size=RESULTS),
    order=st.permutations(range(RESULTS)),
    repeats=st.lists(st.integers(0, RESULTS - 1), max_size=5),
    cuts=st.lists(st.integers(0, RESULTS), max_size=3),
)
async def test_any_order_and_repetition_gives_the_same_facts_ends_and_counters(
    pool: Pool, tmp_path: Path, kinds: list[str], order: list[int], repeats: list[int], cuts: list[int]
) -> None:
    raw = RawAnswers(f"file://{tmp_path}/raw")
    in_order = await picture_after(pool, raw, kinds, [[number] for number in range(RESULTS)])
    shuffled = await picture_after(pool, raw, kinds, in_batches([*order, *repeats], cuts))
    assert shuffled == in_order
    states = ["completed" if done else "pending" for done in answered(kinds)]
    assert [end["status"] for end in in_order["ends"]] == states
    assert [(end["live"], end["open"]) for end in in_order["ends"]] == [(0, 0)] * TASKS
    [counters] = in_order["counters"]
    assert (counters["completed_count"], counters["failed_count"]) == (sum(answered(kinds)), 0)
    assert counters["agrees"]


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [5, 2, 4, 1, 3, 0]])
async def test_the_newest_attempts_answer_is_the_one_that_stays(pool: Pool, tmp_path: Path, order: list[int]) -> None:
    raw = RawAnswers(f"file://{tmp_path}/raw")
    picture = await picture_after(pool, raw, ["mentions the brand"] * RESULTS, [[each] for each in order])
    assert [facts["provider_model"] for facts in picture["facts"]] == ["model-2", "model-5"]
