"""Counts are of what committed, under exactly the names they were given (dispatch §15.1, ADR 0031)."""

import asyncio

import asyncpg
import pytest
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.parser import text_string_to_metric_families

from store.database import Pool, transaction
from telemetry.effects import count, observe
from telemetry.exposition import exposition
from telemetry.families import MAX_SERIES, OTHER, ExactCounter


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def counter(registry: CollectorRegistry) -> ExactCounter:
    return ExactCounter(registry, "some_count", "Something.")


async def test_a_count_inside_a_transaction_counts_at_its_commit(pool: Pool, counter: ExactCounter) -> None:
    async with transaction(pool):
        count(counter, 2)
        assert counter.value() == 0
    assert counter.value() == 2


async def test_what_is_rolled_back_is_not_counted(
    pool: Pool, counter: ExactCounter, registry: CollectorRegistry
) -> None:
    histogram = Histogram("h", "H.", registry=registry)

    async def rolled_back() -> None:
        async with transaction(pool):
            count(counter)
            observe(histogram, 1)
            raise LookupError

    with pytest.raises(LookupError):
        await rolled_back()
    count(counter, 5)
    assert counter.value() == 5
    assert registry.get_sample_value("h_count") == 0


async def test_a_commit_that_fails_is_not_counted(pool: Pool, counter: ExactCounter) -> None:
    async def fails_at_its_end() -> None:
        async with transaction(pool) as connection:
            await connection.execute(
                "create temporary table deferred (id int primary key, other int references deferred deferrable"
                " initially deferred) on commit drop"
            )
            await connection.execute("insert into deferred values (1, 2)")
            count(counter)

    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await fails_at_its_end()
    assert counter.value() == 0


async def test_transactions_side_by_side_keep_their_counts_apart(pool: Pool, counter: ExactCounter) -> None:
    opened = asyncio.Event()

    async def commits() -> None:
        async with transaction(pool):
            count(counter)
            opened.set()
            await asyncio.sleep(0)

    async def rolls_back() -> None:
        async with transaction(pool):
            await opened.wait()
            count(counter, 100)
            raise LookupError

    await asyncio.gather(commits(), rolls_back(), return_exceptions=True)
    assert counter.value() == 1


def test_a_counter_keeps_its_name_in_samples_and_headers(registry: CollectorRegistry, counter: ExactCounter) -> None:
    counter.add(3)
    ExactCounter(registry, "by_kind_count", "By kind.", label="kind", known=("a",)).add(1, "b")
    text = exposition(registry).decode()
    assert "# TYPE some_count counter\nsome_count 3.0\n" in text
    assert 'by_kind_count{kind="a"} 0.0\nby_kind_count{kind="b"} 1.0\n' in text
    assert "_total" not in text
    families = {family.name: family.type for family in text_string_to_metric_families(text)}
    assert families == {"some_count": "counter", "by_kind_count": "counter"}


def test_the_librarys_own_counters_keep_theirs() -> None:
    from telemetry.metrics import REGISTRY

    assert b"# TYPE python_gc_collections_total counter" in exposition(REGISTRY)
    assert b"_created" not in exposition(REGISTRY)


def test_the_series_of_a_counter_are_bounded(registry: CollectorRegistry) -> None:
    counter = ExactCounter(registry, "some_count", "Something.", label="client_id")
    for client in range(MAX_SERIES + 5):
        counter.add(1, str(client))
    counter.add(1, "0")
    assert counter.value("0") == 2
    assert counter.value(OTHER) == 5
