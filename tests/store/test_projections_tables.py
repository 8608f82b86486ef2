"""Competitors and citations of a day: a zero is a true zero, and what is not supported is none (3-results §3.4)."""

from pathlib import Path

import pytest

from domain.labels import Label, LabelledMention
from store.badcases import put_label, read_case, take_label_back
from store.database import Pool
from store.raw_answers import RawAnswers
from tests.support.badcases import doubtful
from tests.support.projecting import answered, competitor, counts, rebuild, rows_of
from tests.support.world import Desktop, World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client()


async def test_a_competitor_is_counted_by_platform_and_in_all(world: World, client: Desktop) -> None:
    rival = await competitor(world)
    await answered(world, client, "Globex beats Acme. Globex!")
    await answered(world, client, "Acme, then Globex.")
    await answered(world, client, "Globex.", platform="doubao")
    await answered(world, client, None, platform="doubao")
    await rebuild(world)
    qwen, doubao = await rows_of(world, "monitoring_competitor_platform_daily")
    if qwen["ai_platform_id"] != "qwen":
        qwen, doubao = doubao, qwen
    assert (counts(qwen), counts(doubao)) == ((2, 2, 0, 0), (2, 1, 1, 0))
    assert (qwen["mentioned_count"], qwen["mention_count"], qwen["first_count"]) == (2, 3, 1)
    assert (qwen["position_sum"], qwen["positioned_count"]) == (3, 2)
    assert (qwen["together_count"], qwen["ahead_count"]) == (2, 1)
    [row] = await rows_of(world, "monitoring_competitor_daily")
    assert (row["competitor_id"], row["competitor_name"], counts(row)) == (rival, "Globex", (4, 3, 1, 0))
    assert (row["mentioned_count"], row["mention_count"], row["together_count"], row["ahead_count"]) == (3, 4, 2, 1)


async def test_a_competitor_nobody_names_has_zeros_of_what_was_collected(world: World, client: Desktop) -> None:
    await competitor(world, "Initech")
    await answered(world, client, "Acme.")
    await world.business_task()
    await rebuild(world)
    [row] = await rows_of(world, "monitoring_competitor_daily")
    assert (counts(row), row["mentioned_count"], row["mention_count"]) == ((2, 1, 0, 1), 0, 0)


async def test_answers_from_before_a_competitor_was_there_are_missing_for_it(world: World, client: Desktop) -> None:
    await answered(world, client, "Globex and Acme.")
    rival = await competitor(world)
    await answered(world, client, "Globex and Acme.")
    await rebuild(world)
    [row] = await rows_of(world, "monitoring_competitor_daily")
    assert (row["competitor_id"], counts(row), row["mentioned_count"]) == (rival, (2, 1, 0, 1), 1)


async def test_who_labels_an_answer_has_looked_for_every_competitor_of_today(
    world: World, pool: Pool, tmp_path: Path
) -> None:
    raw = RawAnswers(f"file://{tmp_path}")
    case = await read_case(pool, None, await doubtful(world, raw))
    await competitor(world)
    label = Label(True, (LabelledMention("Acme", 1, 1), LabelledMention("Globex", 1, 2)))
    version = (await put_label(pool, raw, case, label, expected=1, actor="user 1")).version
    await rebuild(world)
    [row] = await rows_of(world, "monitoring_competitor_daily")
    assert (counts(row), row["mentioned_count"]) == ((1, 1, 0, 0), 1)
    await take_label_back(pool, case, expected=version, actor="user 1")
    await rebuild(world)
    [row] = await rows_of(world, "monitoring_competitor_daily")
    assert (counts(row), row["mentioned_count"]) == ((1, 0, 0, 1), 0)


async def test_a_removed_competitor_stays_where_answers_name_it(world: World, client: Desktop) -> None:
    named, unnamed = await competitor(world), await competitor(world, "Initech")
    await answered(world, client, "Globex, then Acme, then Globex.")
    await world.pool.execute("delete from competitors where id = any($1::bigint[])", [named, unnamed])
    brand = await rebuild(world)
    assert brand is not None
    [row] = await rows_of(world, "monitoring_competitor_daily")
    assert (row["competitor_id"], row["competitor_name"], counts(row)) == (named, "Globex", (1, 1, 0, 0))
    assert row["mention_count"] == brand["competitor_mentions"] == 2


async def test_a_name_that_is_only_denied_is_not_mentioned(world: World, client: Desktop) -> None:
    await competitor(world)
    await answered(world, client, "I have no information about Globex.")
    await rebuild(world)
    [row] = await rows_of(world, "monitoring_competitor_daily")
    assert (row["collected_count"], row["mentioned_count"], row["mention_count"]) == (1, 0, 0)


async def test_citations_are_counted_by_page_and_by_registrable_domain(world: World, client: Desktop) -> None:
    await world.set("brands", world.brand_id, domains=["acme.com"])
    await answered(world, client, "Acme.", "https://acme.com/", "https://news.x.org/a?utm_source=q", "https://x.org/b")
    await answered(world, client, "Acme.", "https://news.x.org/a")
    await world.business_task()
    await rebuild(world)
    sources = await rows_of(world, "monitoring_citation_source_daily")
    assert {(row["source"], row["owner"]): (row["citation_count"], row["answer_count"], row["page_count"])
            for row in sources} == {("acme.com", "own"): (1, 1, 1), ("x.org", "other"): (3, 2, 2)}  # fmt: skip
    pages = await rows_of(world, "monitoring_citation_page_daily")
    assert {row["normalized_url"]: row["citation_count"] for row in pages} == {
        "https://acme.com/": 1, "https://news.x.org/a": 2, "https://x.org/b": 1,
    }  # fmt: skip
    assert {counts(row) for row in (*sources, *pages)} == {(3, 2, 0, 1)}
    assert pages[0]["title"].startswith("About ")


async def test_a_page_whose_domain_is_hidden_is_a_source_by_its_sites_name(world: World, client: Desktop) -> None:
    await answered(world, client, "Acme.", "https://a.org/", "https://b.org/")
    await world.pool.execute("update monitoring_citation_facts set domain = null")
    await world.pool.execute("update monitoring_citation_facts set site_name = 'The Times' where ordinal = 1")
    await rebuild(world)
    rows = await rows_of(world, "monitoring_citation_source_daily")
    assert sorted((row["source"], row["domain"]) for row in rows) == [("", None), ("The Times", None)]


async def test_a_platform_that_cannot_cite_is_in_no_count_of_citations(world: World, client: Desktop) -> None:
    await world.set("ai_platforms", "kimi", supports_citation=False)
    await answered(world, client, "Acme.", "https://x.org/")
    await answered(world, client, "Acme.", "https://x.org/", "https://y.org/", platform="kimi")
    await world.business_task(platform="kimi")
    brand = await rebuild(world)
    assert brand is not None
    assert (counts(brand), brand["citation_count"]) == ((3, 2, 0, 1), 1)
    for table in ("monitoring_citation_source_daily", "monitoring_citation_page_daily"):
        [row] = await rows_of(world, table)
        assert (counts(row), row["citation_count"]) == ((1, 1, 0, 0), 1)


async def test_the_answer_that_does_not_count_cites_nothing(world: World, client: Desktop) -> None:
    """Neither a failed run's citations nor those of the run that gave way to a better one."""
    lease = await answered(world, client, "Acme.", "https://x.org/")
    await answered(world, client, "Acme.", "https://y.org/")
    run = await world.pool.fetchval("select run_id from monitoring_citation_facts where domain = 'x.org'")
    await world.set("question_monitor_runs", run, status="failed", run_at=ago(hours=1))
    assert counts(await rebuild(world)) == (2, 1, 1, 0)
    assert [row["source"] for row in await rows_of(world, "monitoring_citation_source_daily")] == ["y.org"]
    assert lease.business_id


async def test_run_modes_are_counted_apart(world: World, client: Desktop) -> None:
    await competitor(world)
    await answered(world, client, "Acme.", "https://x.org/")
    lease = await world.leased(client)
    await world.set("monitoring_collect_tasks", lease.business_id, run_mode="api_search_grounded")
    await rebuild(world)
    tables = ("monitoring_brand_daily", "monitoring_competitor_daily", "monitoring_topic_daily",
              "monitoring_brand_impression")  # fmt: skip
    for table in tables:
        rows = {row["run_mode"]: counts(row) for row in await rows_of(world, table)}
        assert rows == {"api_standard": (1, 1, 0, 0), "api_search_grounded": (1, 0, 0, 1)}, table
