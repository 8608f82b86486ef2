"""Whatever happens in any order: a rebuild equals one from scratch, and no two tables disagree (3-results §3.4)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.database import Pool
from store.projection_tables import COMPLETENESS, RIVALRY, VISIBILITY
from tests.support.projecting import TABLES, competitor, day_of, picture, rebuild_rows, rows_of, store, topic
from tests.support.world import Desktop, Lease, World

UNITS = 4
TEXTS = (
    None,
    "Nobody.",
    "Acme.",
    "Globex, then Acme. Globex!",
    "I have no information about Acme.",
    "1. Acme\n2. Globex",
)
URLS = ("https://acme.com/", "https://news.x.org/a", "https://x.org/b?utm_source=q", "https://y.org/")

acts = st.one_of(
    st.tuples(
        st.just("answer"),
        st.integers(0, UNITS - 1),
        st.sampled_from(TEXTS),
        st.lists(st.sampled_from(URLS), max_size=3),
    ),
    st.tuples(st.sampled_from(["skip", "fail", "ask anew", "regroup", "mode"]), st.integers(0, UNITS - 1)),
    st.tuples(st.sampled_from(["rebuild", "rebuild", "hire", "fire", "cannot cite", "can cite"])),
)


@dataclass(slots=True)
class Day:
    """A brand-day of four units: two questions on two platforms."""

    world: World
    client: Desktop
    leases: list[Lease] = field(default_factory=list)

    @classmethod
    async def begin(cls, pool: Pool) -> "Day":
        world = await World.create(pool)
        await world.set("brands", world.brand_id, domains=["acme.com"])
        day = cls(world, await world.client())
        await competitor(world)
        questions = [await world.question() for _ in range(UNITS // 2)]
        for number in range(UNITS):
            lease = await world.leased(day.client, platform=("qwen", "kimi")[number % 2])
            asked = questions[number // 2]
            asks = {"question_id": asked.id, "question_version_id": asked.version_id}
            await world.set("monitoring_collect_tasks", lease.business_id, **asks)
            day.leases.append(lease)
        return day

    async def act(self, name: str, number: int = 0, text: str | None = None, urls: Sequence[str] = ()) -> None:
        world, lease = self.world, self.leases[number]
        task = await world.business(lease.business_id)
        if name == "answer":
            await world.pool.execute("delete from question_monitor_runs where attempt_id = $1", lease.attempt_id)
            await store(world, lease, self.client, text, *urls)
        elif name in ("skip", "fail"):
            await world.set("monitoring_collect_tasks", task["id"], status={"skip": "skipped", "fail": "failed"}[name])
        elif name == "ask anew":
            await self._ask_anew(task)
        elif name == "regroup":
            made = await topic(world, f"topic {await world.pool.fetchval('select count(*) from topics')}")
            await world.set("questions", task["question_id"], topic_id=made)
        elif name == "mode":
            await world.set("monitoring_collect_tasks", task["id"], run_mode="api_search_grounded")
        elif name == "hire":
            await competitor(world, f"Initech {await world.pool.fetchval('select count(*) from competitors')}")
        elif name == "fire":
            await world.pool.execute("delete from competitors where brand_id = $1", world.brand_id)
        elif name.endswith("cite"):
            await world.set("ai_platforms", "kimi", supports_citation=name == "can cite")
        else:
            await rebuild_rows(world.pool, day_of(world))

    async def _ask_anew(self, task: dict[str, Any]) -> None:
        version = await self.world.pool.fetchval(
            "insert into question_versions (tenant_id, question_id, text, text_hash) select tenant_id, id, 'Anew?',"
            " gen_random_uuid()::text from questions where id = $1 returning id",
            task["question_id"],
        )
        await self.world.set("questions", task["question_id"], current_version_id=version)
        await self.world.set("monitoring_collect_tasks", task["id"], question_version_id=version, status="pending")


@settings(max_examples=10, deadline=timedelta(seconds=30), suppress_health_check=list(HealthCheck))
@given(st.lists(acts, min_size=3, max_size=12))
async def test_rebuilds_after_any_events_equal_one_from_scratch_and_agree(
    pool: Pool, events: list[tuple[Any, ...]]
) -> None:
    day = await Day.begin(pool)
    for event in events:
        await day.act(*event)
    await rebuild_rows(pool, day_of(day.world))
    grown = await picture(day.world)
    for table in TABLES:
        await pool.execute(f"delete from {table} where brand_id = $1", day.world.brand_id)
    await rebuild_rows(pool, day_of(day.world))
    assert await picture(day.world) == grown
    await tables_agree(day.world)


async def tables_agree(world: World) -> None:
    brand = await sums(world, "monitoring_brand_daily", VISIBILITY)
    for name in ("brand_platform", "platform_question", "question", "topic"):
        assert await sums(world, f"monitoring_{name}_daily", VISIBILITY) == brand, name
    rivals = await sums(world, "monitoring_competitor_daily", RIVALRY)
    assert await sums(world, "monitoring_competitor_platform_daily", RIVALRY) == rivals
    for mode, found in brand.items():
        assert rivals.get(mode, Counter())["mention_count"] == found["competitor_mentions"]
    for table in ("monitoring_citation_page_daily", "monitoring_citation_source_daily"):
        cited = await sums(world, table, ("citation_count",))
        own = await sums(world, table, ("citation_count",), owner="own")
        for mode, found in brand.items():
            assert cited.get(mode, Counter())["citation_count"] == found["citation_count"], table
            assert own.get(mode, Counter())["citation_count"] == found["own_citation_count"], table
    for table in (*TABLES, "monitoring_citation_page_daily", "monitoring_citation_source_daily"):
        for row in await rows_of(world, table):
            if "expected_count" in row:
                expected, *parts = (row[name] for name in COMPLETENESS)
                assert expected == sum(parts), table


async def sums(world: World, table: str, names: Sequence[str], **where: Any) -> dict[str, Counter[str]]:
    """By run mode."""
    found: dict[str, Counter[str]] = {}
    for row in await rows_of(world, table, **where):
        found.setdefault(row["run_mode"], Counter()).update({name: row[name] for name in names})
    return found
