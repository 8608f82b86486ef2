"""A brand-day's units and their sums: completeness first, and equal to a rebuild from scratch (3-results §3.4)."""

import pytest

from store.database import Pool, transaction
from store.projections import rebuild_day
from tests.support.projecting import (
    TABLES,
    answered,
    counts,
    day_of,
    picture,
    question_of,
    rebuild,
    rebuild_rows,
    rows_of,
    store,
    topic,
)
from tests.support.world import Desktop, World


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client()


async def test_expected_tasks_without_runs_are_missing(world: World, client: Desktop) -> None:
    await world.business_task()
    await world.business_task(platform="doubao")
    row = await rebuild(world)
    assert counts(row) == (2, 0, 0, 2)
    platforms = await world.pool.fetch(
        "select ai_platform_id, missing_count from monitoring_brand_platform_daily order by 1"
    )
    assert [tuple(each) for each in platforms] == [("doubao", 1), ("qwen", 1)]


async def test_a_failed_run_is_failed_and_not_an_answer_without_the_brand(world: World, client: Desktop) -> None:
    await store(world, await world.leased(client), client, None)
    await store(world, await world.leased(client), client, "Nobody knows.")
    row = await rebuild(world)
    assert row is not None
    assert counts(row) == (2, 1, 1, 0)
    assert row["mentioned_count"] == 0


async def test_a_failed_task_without_a_run_is_failed(world: World) -> None:
    await world.set("monitoring_collect_tasks", await world.business_task(), status="failed")
    await world.set("monitoring_collect_tasks", await world.business_task(), status="expired")
    assert counts(await rebuild(world)) == (2, 0, 1, 1)


async def test_an_answer_stays_when_a_later_asking_of_its_question_is_skipped(world: World, client: Desktop) -> None:
    lease = await world.leased(client)
    await store(world, lease, client, "Acme is fine")
    await world.set("monitoring_collect_tasks", lease.business_id, status="skipped")
    assert counts(await rebuild(world)) == (1, 1, 0, 0)


async def test_skipped_tasks_are_not_expected_and_ui_samples_never_enter(world: World, client: Desktop) -> None:
    await world.set("monitoring_collect_tasks", await world.business_task(), status="skipped")
    sample = await world.leased(client)
    await world.set("monitoring_collect_tasks", sample.business_id, run_mode="ui_sample")
    await store(world, sample, client, "Acme.")
    assert await rebuild(world) is None
    assert await world.pool.fetchval("select count(*) from monitoring_brand_daily") == 0


async def test_mentions_positions_and_citations_are_summed(world: World, client: Desktop) -> None:
    await world.pool.execute("update brands set domains = '{acme.com}'")
    await world.pool.execute(
        "insert into competitors (tenant_id, brand_id, name) values ($1, $2, 'Globex')", world.tenant_id, world.brand_id
    )
    await store(
        world, await world.leased(client), client, "Acme beats Globex. Acme!", "https://acme.com/", "https://x.org/"
    )
    await store(world, await world.leased(client), client, "Globex, then Acme.")
    await store(world, await world.leased(client), client, "Globex alone.")
    row = await rebuild(world)
    assert row is not None
    assert counts(row) == (3, 3, 0, 0)
    assert (row["mentioned_count"], row["first_count"]) == (2, 1)
    assert (row["position_sum"], row["positioned_count"]) == (3, 2)
    assert (row["brand_mentions"], row["competitor_mentions"]) == (3, 3)
    assert (row["citation_count"], row["own_citation_count"]) == (2, 1)


async def both_collectors(world: World, client: Desktop, desktop: str | None, api: str | None) -> None:
    """The same question on the same platform, collected both ways."""
    first = await world.leased(client)
    second = await world.leased(client)
    question = (await world.business(first.business_id))["question_id"]
    version = (await world.business(first.business_id))["question_version_id"]
    await world.set(
        "monitoring_collect_tasks", second.business_id,
        collector_type="api", question_id=question, question_version_id=version,
    )  # fmt: skip
    await store(world, first, client, desktop)
    await store(world, second, client, api)


@pytest.mark.parametrize(
    ("desktop", "api", "plan", "mentioned"),
    [
        pytest.param(None, "Acme.", "desktop", 1, id="succeeded-over-failed"),
        pytest.param("Acme.", "Nobody.", "desktop", 1, id="then-the-plans-collector"),
        pytest.param("Acme.", "Nobody.", "api", 0, id="also-when-that-is-api"),
    ],
)
async def test_where_both_collectors_ran_the_better_run_counts_once(
    world: World, client: Desktop, desktop: str | None, api: str, plan: str, mentioned: int
) -> None:
    await world.set("monitoring_plans", await world.plan(), collector_type=plan)
    await both_collectors(world, client, desktop, api)
    row = await rebuild(world)
    assert row is not None
    assert counts(row) == (1, 1, 0, 0)
    assert row["mentioned_count"] == mentioned


async def ask_in(world: World, task: int, version: int) -> None:
    await world.set("monitoring_collect_tasks", task, question_version_id=version)


async def another_wording(world: World, question: int, *, is_current: bool = True) -> int:
    version: int = await world.pool.fetchval(
        "insert into question_versions (tenant_id, question_id, text, text_hash) values ($1, $2, 'Anew?', 'anew')"
        " returning id",
        world.tenant_id,
        question,
    )
    if is_current:
        await world.set("questions", question, current_version_id=version)
    return version


async def test_an_answer_to_an_older_wording_is_missing_for_the_present_one(world: World, client: Desktop) -> None:
    lease = await answered(world, client, "Acme.")
    await ask_in(world, lease.business_id, await another_wording(world, await question_of(world, lease)))
    assert counts(await rebuild(world)) == (1, 0, 0, 1)


@pytest.mark.parametrize("is_current", [True, False])
async def test_collectors_asked_in_two_wordings_are_one_unit_of_the_present_one(
    world: World, client: Desktop, is_current: bool
) -> None:
    await both_collectors(world, client, "Acme.", None)
    old = await world.pool.fetchrow("select * from question_monitor_runs where status = 'succeeded'")
    assert old is not None
    version = await another_wording(world, old["question_id"])
    await world.pool.execute(
        "update monitoring_collect_tasks set question_version_id = $1 where collector_type = 'api'", version
    )
    if not is_current:
        await world.set("questions", old["question_id"], current_version_id=old["question_version_id"])
    assert counts(await rebuild(world)) == ((1, 0, 0, 1) if is_current else (1, 1, 0, 0))
    [unit] = await rows_of(world, "monitoring_platform_question_daily")
    assert unit["question_version_id"] == (version if is_current else old["question_version_id"])


async def test_a_platform_that_cannot_do_the_run_mode_is_not_expected(world: World, client: Desktop) -> None:
    lease = await answered(world, client, "Acme.")
    await world.set("monitoring_collect_tasks", lease.business_id, run_mode="api_search_grounded")
    await world.pool.execute("update question_monitor_runs set run_mode = 'api_search_grounded'")
    await rebuild(world)
    assert await rows_of(world, "monitoring_brand_daily")
    await world.set("ai_platforms", "qwen", supports_search_grounded=False)
    await rebuild(world)
    assert [await rows_of(world, table) for table in TABLES] == [[]] * len(TABLES)


async def test_an_answer_that_nobody_has_parsed_says_nothing(world: World, client: Desktop) -> None:
    await answered(world, client, "Nobody.")
    await world.pool.execute("delete from question_monitor_parse_results")
    assert counts(await rebuild(world)) == (1, 0, 0, 1)


async def test_answers_that_know_nothing_of_the_brand_are_counted_as_such(world: World, client: Desktop) -> None:
    await answered(world, client, "I have no information about Acme.")
    row = await rebuild(world)
    assert row is not None
    assert (row["collected_count"], row["mentioned_count"], row["absence_count"]) == (1, 0, 1)


async def test_a_topic_is_the_questions_own_else_its_keywords_else_none(world: World, client: Desktop) -> None:
    own, keywords = await topic(world, "prices"), await topic(world, "safety")
    keyword = await world.pool.fetchval(
        "insert into keywords (tenant_id, brand_id, topic_id, text) values ($1, $2, $3, 'k') returning id",
        world.tenant_id,
        world.brand_id,
        keywords,
    )
    questions = [await question_of(world, await answered(world, client, "Acme.")) for _ in range(4)]
    await world.set("questions", questions[0], topic_id=own, keyword_id=keyword)
    await world.set("questions", questions[1], keyword_id=keyword)
    await rebuild(world)
    rows = await rows_of(world, "monitoring_topic_daily")
    assert {row["topic_id"]: row["mentioned_count"] for row in rows} == {own: 1, keywords: 1, None: 2}
    await world.set("questions", questions[0], topic_id=None, keyword_id=None)
    await rebuild(world)
    rows = await rows_of(world, "monitoring_topic_daily")
    assert {row["topic_id"]: row["mentioned_count"] for row in rows} == {keywords: 1, None: 3}


async def test_a_question_is_the_sum_of_its_platforms_by_wording(world: World, client: Desktop) -> None:
    question = await world.question()
    for platform, text in (("qwen", "Acme."), ("doubao", "Nobody."), ("kimi", None)):
        lease = await world.leased(client, platform=platform)
        await world.set(
            "monitoring_collect_tasks", lease.business_id, question_id=question.id,
            question_version_id=question.version_id,
        )  # fmt: skip
        await store(world, lease, client, text)
    await world.business_task(question=question, platform="zhipu")
    await rebuild(world)
    [row] = await rows_of(world, "monitoring_question_daily")
    assert (counts(row), row["mentioned_count"]) == ((4, 2, 1, 1), 1)
    units = await rows_of(world, "monitoring_platform_question_daily")
    assert {unit["ai_platform_id"]: counts(unit)[1:] for unit in units} == {
        "qwen": (1, 0, 0), "doubao": (1, 0, 0), "kimi": (0, 1, 0), "zhipu": (0, 0, 1),
    }  # fmt: skip


async def test_the_impression_is_not_configured_and_still_says_how_complete_the_day_is(
    world: World, client: Desktop
) -> None:
    await answered(world, client, "Acme.")
    await answered(world, client, None)
    await rebuild(world)
    [row] = await rows_of(world, "monitoring_brand_impression")
    assert (counts(row), row["status"], row["terms"]) == ((2, 1, 1, 0), "not_configured", [])


async def test_a_rebuild_equals_a_rebuild_from_scratch(world: World, client: Desktop) -> None:
    for text in ("Acme.", None, "Nobody."):
        await answered(world, client, text, "https://acme.com/", "https://x.org/")
        await rebuild(world)
    await world.set("monitoring_collect_tasks", await world.business_task(platform="doubao"), status="skipped")
    await rebuild(world)
    grown = await picture(world)
    for table in TABLES:
        await world.pool.execute(f"delete from {table}")
    await rebuild(world)
    assert await picture(world) == grown


async def test_a_rebuild_writes_only_what_differs(world: World, client: Desktop, pool: Pool) -> None:
    lease = await world.leased(client)
    for _ in range(3):
        await answered(world, client, "Acme.", "https://acme.com/", "https://x.org/")
    await rebuild(world)
    pages = await rows_of(world, "citation_page_days")
    assert await rebuild_rows(pool, day_of(world)) == 0
    await store(world, lease, client, "Acme.", "https://y.org/")
    # The unit, its question; platform, brand, topics; one page of one source; the impression's counts.
    assert await rebuild_rows(pool, day_of(world)) == 8
    now = await rows_of(world, "citation_page_days")
    assert [row for row in now if row["normalized_url"] != "https://y.org/"] == pages


async def test_other_brands_and_other_days_are_left_alone(world: World, pool: Pool, client: Desktop) -> None:
    await answered(world, client, "Acme.", "https://x.org/")
    await rebuild(world)
    await pool.execute(
        "insert into projection_rebuilds select tenant_id, brand_id, business_date - 1, now(), 1, 1, now()"
        " from projection_rebuilds"
    )
    before = [await rows_of(world, table) for table in (*TABLES, "projection_rebuilds")]
    other = await World.create(pool, "Other")
    await other.business_task()
    assert await rebuild(other) is not None
    assert [await rows_of(world, table) for table in (*TABLES, "projection_rebuilds")] == before


async def test_readers_see_the_old_rows_until_the_rebuild_commits(world: World, pool: Pool) -> None:
    await world.business_task()
    await rebuild(world)
    await world.business_task()
    async with transaction(pool) as connection:
        await rebuild_day(connection, day_of(world))
        assert await pool.fetchval("select expected_count from monitoring_brand_daily") == 1
    assert await pool.fetchval("select expected_count from monitoring_brand_daily") == 2
