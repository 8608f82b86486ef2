"""A reparse ends with the facts of a fresh ingest, whatever happens meanwhile (3-results §3.3)."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from activities import reparse as module
from activities.reparse import Judge, Reading, Reparse, judge_in_thread
from activities.reparse_tally import Tally
from domain.answers import AnswerKind
from store.audit import check_integrity
from store.database import Pool, transaction
from store.facts import BrandNames, RunFact, read_brands
from store.raw_answers import RawAnswers
from store.reparse import SQL, Selection, read_runs, rewrite
from tests.support.projecting import competitor, counts, rebuild, rows_of
from tests.support.reparsing import (
    as_an_older_version_read_it,
    as_an_older_version_refused_it,
    as_an_older_version_took_it,
    facts,
    figures,
    ingested,
    stored,
)
from tests.support.result_queues import until
from tests.support.results import chat_answer
from tests.support.world import BUSINESS_DATE, Desktop, Lease, World, ago

URLS = ["https://acme.com/a", "https://globex.com/b", "https://example.com/c"]
ANSWER = chat_answer("Acme is better than Globex, and Acme is cheaper.", urls=URLS)
UNKNOWN = '{"neither": "an answer", "nor": ["a fault"]}'
REFUSAL = '{"object": "chat.completion", "model": "m", "choices": [{"index": 0, "finish_reason": "content_filter"}]}'


@pytest.fixture
async def world(pool: Pool) -> World:
    made = await World.create(pool)
    await pool.execute("update brands set domains = '{acme.com}'")
    await pool.execute(
        "insert into competitors (tenant_id, brand_id, name, domains) values ($1, $2, 'Globex', '{globex.com}')",
        made.tenant_id, made.brand_id,
    )  # fmt: skip
    return made


@pytest.fixture
async def client(world: World) -> Desktop:
    return await world.client()


@pytest.fixture
def raw(tmp_path: Path) -> RawAnswers:
    return RawAnswers(f"file://{tmp_path}/raw")


async def walk(reparse: Reparse, selection: Selection | None = None, **options: Any) -> Tally:
    await reparse.walk(selection or Selection(), stop=asyncio.Event(), on_progress=lambda _: None, **options)
    return reparse.tally


def after_reading(step: Callable[[], Any]) -> Judge:
    """A judge at whose side something happens between the reading of the runs and the writing of the facts."""

    async def judge(readings: Sequence[Reading]) -> list[RunFact]:
        read = await judge_in_thread(readings)
        await step()
        return read

    return judge


async def test_old_facts_become_those_of_a_fresh_ingest_and_so_do_the_figures(
    pool: Pool, world: World, client: Desktop, raw: RawAnswers
) -> None:
    same, poorer, unread = [await ingested(world, client, raw, ANSWER) for _ in range(3)]
    taken = await ingested(world, client, raw, REFUSAL)
    await rebuild(world)
    fresh, sums = await facts(pool), await figures(pool)
    await pool.execute("update question_monitor_runs set extractor_version = 'v0' where id = $1", same)
    await as_an_older_version_read_it(pool, poorer)
    await as_an_older_version_refused_it(pool, unread)
    await as_an_older_version_took_it(pool, taken)
    await pool.execute("delete from projection_rebuild_queue")
    tally = await walk(Reparse(pool, raw))
    assert await facts(pool) == fresh
    assert (tally.runs, tally.changed, tally.missing_raw, tally.overtaken, tally.unparsed) == (4, 3, 0, 0, 0)
    assert (tally.failed_to_succeeded, tally.succeeded_to_failed) == (1, 1)
    assert (tally.mentions_changed, tally.citations_changed) == (2, 3)
    assert (tally.badcases_opened, tally.badcases_closed, len(tally.days)) == (0, 1, 1)
    assert await pool.fetchval("select count(*) from projection_rebuild_queue") == 1
    await rebuild(world)
    assert await figures(pool) == sums


async def test_a_second_reparse_finds_nothing_to_do_unless_it_is_asked_to_read_again(
    pool: Pool, world: World, client: Desktop, raw: RawAnswers
) -> None:
    await as_an_older_version_read_it(pool, await ingested(world, client, raw, ANSWER))
    assert (await walk(Reparse(pool, raw))).changed == 1
    assert (await walk(Reparse(pool, raw))).runs == 0
    await pool.execute("update competitors set name = 'Initech'")
    again = await walk(Reparse(pool, raw), Selection(again=True))
    assert (again.runs, again.mentions_changed) == (1, 1)


async def test_answers_that_do_not_name_a_new_competitor_are_no_longer_missing_for_it(
    pool: Pool, world: World, client: Desktop, raw: RawAnswers
) -> None:
    await ingested(world, client, raw, chat_answer("Acme is best."))
    rival = await competitor(world, "Initech")
    await rebuild(world)
    await pool.execute("delete from projection_rebuild_queue")
    tally = await walk(Reparse(pool, raw), Selection(again=True))
    assert (tally.changed, len(tally.days)) == (0, 1)
    assert await pool.fetchval("select count(*) from projection_rebuild_queue") == 1
    await rebuild(world)
    [row] = await rows_of(world, "monitoring_competitor_daily", competitor_id=rival)
    assert (counts(row), row["mentioned_count"]) == ((1, 1, 0, 0), 0)


async def test_a_run_whose_answer_is_none_now_leaves_its_task_done_and_nothing_lost(
    pool: Pool, world: World, client: Desktop, raw: RawAnswers
) -> None:
    lease = await world.leased(client, status="in_progress")
    run = await stored(world, client, raw, lease, REFUSAL)
    await pool.execute("update monitoring_collect_tasks set status = 'completed', active_task_id = null")
    await pool.execute("update desktop_tasks set status = 'succeeded', lease_expires_at = null")
    await pool.execute("update desktop_task_attempts set outcome = 'succeeded', ended_at = now()")
    await as_an_older_version_took_it(pool, run)
    assert (await walk(Reparse(pool, raw))).succeeded_to_failed == 1
    stored_run = await world.row("question_monitor_runs", run)
    assert (stored_run["status"], stored_run["failure_kind"]) == ("failed", AnswerKind.REFUSAL.value)
    assert (await world.business(lease.business_id))["status"] == "completed"
    assert (await check_integrity(pool, world.tenant_id)).lost == 0


async def test_a_reparse_that_was_killed_goes_on_with_what_is_left(
    pool: Pool, world: World, client: Desktop, raw: RawAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK", 2)
    runs = [await ingested(world, client, raw, ANSWER) for _ in range(6)]
    fresh = await facts(pool)
    await as_an_older_version_read_it(pool, *runs)
    chunks, stuck = iter([False, True]), asyncio.Event()

    async def hang() -> None:
        if next(chunks):
            stuck.set()
            await asyncio.Event().wait()

    first = asyncio.create_task(walk(Reparse(pool, raw, judge=after_reading(hang))))
    await stuck.wait()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    second = await walk(Reparse(pool, raw))
    assert second.runs == 4
    assert await facts(pool) == fresh


async def test_a_stop_ends_it_between_two_chunks(
    pool: Pool, world: World, client: Desktop, raw: RawAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK", 2)
    await as_an_older_version_read_it(pool, *[await ingested(world, client, raw, ANSWER) for _ in range(5)])
    stop, reparse = asyncio.Event(), Reparse(pool, raw)
    assert await reparse.walk(Selection(), stop=stop, on_progress=lambda _: stop.set()) is False
    assert reparse.tally.runs == 2
    assert (await walk(Reparse(pool, raw), limit=1)).runs == 1


async def newer_attempt(world: World, client: Desktop, older: Lease) -> Lease:
    """Another attempt of the same business task."""
    await world.set("desktop_task_attempts", older.attempt_id, leased_at=ago(minutes=2))
    other = await world.leased(client, status="in_progress")
    await world.set("desktop_task_attempts", other.attempt_id, monitor_task_id=older.business_id)
    return Lease(other.task_id, older.business_id, other.attempt_id, other.token)


async def test_an_answer_that_comes_meanwhile_has_the_last_word(
    pool: Pool, world: World, client: Desktop, raw: RawAnswers
) -> None:
    older = await world.leased(client, status="in_progress")
    run = await stored(world, client, raw, older, ANSWER)
    newer = await newer_attempt(world, client, older)
    await as_an_older_version_read_it(pool, run)
    seen: list[Any] = []

    async def ingest() -> None:
        await stored(world, client, raw, newer, chat_answer("Globex.", urls=["https://example.com/new"]))
        seen.append(await facts(pool))

    tally = await walk(Reparse(pool, raw, judge=after_reading(ingest)))
    assert (tally.overtaken, tally.changed) == (1, 0)
    assert [await facts(pool)] == seen


async def label(pool: Pool, run: int) -> None:
    """A person has judged the answer that the run stands on."""
    await pool.execute(
        "insert into monitoring_parse_badcases (tenant_id, run_id, reason, attempt_id, label, labelled_at)"
        " select tenant_id, id, 'low_confidence', attempt_id, '{}', now() from question_monitor_runs where id = $1",
        run,
    )


@pytest.mark.parametrize("moment", ["before", "meanwhile"])
async def test_figures_that_a_person_has_labelled_stay(
    pool: Pool, world: World, client: Desktop, raw: RawAnswers, moment: str
) -> None:
    run = await ingested(world, client, raw, ANSWER)
    await as_an_older_version_read_it(pool, run)
    if moment == "before":
        await label(pool, run)
    as_labelled = (await facts(pool))["question_monitor_parse_results"]
    judge = judge_in_thread if moment == "before" else after_reading(lambda: label(pool, run))
    tally = await walk(Reparse(pool, raw, judge=judge))
    await Reparse(pool, raw).take([run])
    assert (tally.changed, tally.overtaken) == (0, int(moment == "meanwhile"))
    assert (await facts(pool))["question_monitor_parse_results"] == as_labelled


async def test_a_doubt_that_stays_keeps_its_case_and_one_that_is_gone_loses_it(
    pool: Pool, world: World, client: Desktop, raw: RawAnswers
) -> None:
    doubtful = await ingested(world, client, raw, UNKNOWN)
    clear = await ingested(world, client, raw, ANSWER)
    case = await pool.fetchval("select id from monitoring_parse_badcases where run_id = $1", doubtful)
    assert case is not None
    await pool.execute("update question_monitor_runs set failure_reason = 'another', extractor_version = 'v0'")
    await pool.execute("update monitoring_parse_badcases set confidence = 0.25, extractor_version = 'v0'")
    await as_an_older_version_refused_it(pool, clear)
    tally = await walk(Reparse(pool, raw))
    rows = await pool.fetch("select id, run_id, confidence, extractor_version from monitoring_parse_badcases")
    [row] = rows
    assert (row["id"], row["run_id"], row["confidence"]) == (case, doubtful, 0.0)
    assert row["extractor_version"] != "v0"
    assert (tally.badcases_opened, tally.badcases_closed) == (0, 1)


async def test_a_raw_answer_that_is_gone_is_counted_and_its_run_stays(
    pool: Pool, world: World, client: Desktop, raw: RawAnswers
) -> None:
    gone, there = [await ingested(world, client, raw, ANSWER) for _ in range(2)]
    await as_an_older_version_read_it(pool, gone, there)
    await raw.delete(await pool.fetchval("select raw_answer_key from question_monitor_runs where id = $1", gone))
    tally = await walk(Reparse(pool, raw))
    assert (tally.runs, tally.changed, tally.missing_raw) == (1, 1, 1)
    versions = await pool.fetch("select id from question_monitor_runs where extractor_version = 'v0'")
    assert [row["id"] for row in versions] == [gone]


async def test_a_store_that_is_away_is_waited_for(
    pool: Pool, world: World, client: Desktop, raw: RawAnswers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await as_an_older_version_read_it(pool, await ingested(world, client, raw, ANSWER))
    (tmp_path / "raw").rename(tmp_path / "elsewhere")
    task = asyncio.create_task(walk(Reparse(pool, raw)))

    async def waits() -> bool:
        return "reparse waits" in caplog.text

    await until(waits)
    (tmp_path / "elsewhere").rename(tmp_path / "raw")
    assert (await task).changed == 1


async def test_a_dry_run_says_what_would_change_and_changes_nothing(
    pool: Pool, world: World, client: Desktop, raw: RawAnswers
) -> None:
    poorer, unread = [await ingested(world, client, raw, ANSWER) for _ in range(2)]
    await as_an_older_version_read_it(pool, poorer)
    await as_an_older_version_refused_it(pool, unread)
    names = ["question_monitor_runs", "question_monitor_parse_results", "monitoring_parse_badcases",
             "monitoring_citation_facts", "projection_rebuild_queue"]  # fmt: skip
    rows = {name: await pool.fetch(f"select xmin, t.* from {name} t order by 2, 3") for name in names}
    tally = await walk(Reparse(pool, raw, dry_run=True))
    assert {name: await pool.fetch(f"select xmin, t.* from {name} t order by 2, 3") for name in names} == rows
    words = [list(change.words()) for change in sorted(tally.examples, key=lambda each: each.run.id)]
    assert words[0] == ["Acme: 0 → 2", "Globex: 0 → 1", "citations: 1 → 3"]
    assert words[1][0] == "failed (error) → succeeded"
    assert words[1][-1] == "doubts: unknown_format → none"
    real = await walk(Reparse(pool, raw))
    assert real.summary() == tally.summary()


async def test_an_answer_that_our_program_fails_on_costs_no_other_and_stays_to_do(
    pool: Pool, world: World, client: Desktop, raw: RawAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, sound = await ingested(world, client, raw, ANSWER), await ingested(world, client, raw, REFUSAL)
    await as_an_older_version_read_it(pool, broken)
    await as_an_older_version_took_it(pool, sound)
    before = (await facts(pool))["question_monitor_parse_results"]

    def fail(*_: object, **__: object) -> None:
        raise KeyError("a defect")

    with monkeypatch.context() as patch:
        patch.setattr("activities.interpret.parse_answer", fail)
        tally = await walk(Reparse(pool, raw))
    assert (tally.runs, tally.changed, tally.unparsed) == (2, 1, 1)
    assert [row for row in before if row["run_id"] == broken] == (await facts(pool))["question_monitor_parse_results"]
    assert (await walk(Reparse(pool, raw))).changed == 1


async def test_two_reparses_at_once_do_no_harm(pool: Pool, world: World, client: Desktop, raw: RawAnswers) -> None:
    runs = [await ingested(world, client, raw, ANSWER) for _ in range(4)]
    fresh = await facts(pool)
    await as_an_older_version_read_it(pool, *runs)
    both = asyncio.Barrier(2)

    async def meet() -> None:
        await both.wait()

    tallies = await asyncio.gather(*(walk(Reparse(pool, raw, judge=after_reading(meet))) for _ in range(2)))
    assert await facts(pool) == fresh
    assert sum(tally.changed for tally in tallies) == 4
    assert sum(tally.overtaken for tally in tallies) == 4


async def test_a_result_and_a_reparse_of_one_day_cannot_lock_each_other_out(
    pool: Pool, world: World, client: Desktop, raw: RawAnswers
) -> None:
    run = await ingested(world, client, raw, ANSWER)
    await as_an_older_version_read_it(pool, run)
    [old] = await read_runs(pool, [run])
    [fact] = await judge_in_thread([Reading(old, await brand(world), ANSWER.encode())])
    async with transaction(pool) as ingest:
        await ingest.execute(SQL["mark_days"], [world.tenant_id], [world.brand_id], [BUSINESS_DATE])
        reparsing = asyncio.create_task(rewrite(pool, [(old, fact)], []))
        await until(lambda: waiting(pool))
        # As ingest does: its mark first, then its runs.
        await ingest.execute("update question_monitor_runs set updated_at = clock_timestamp() where id = $1", run)
    assert await reparsing == set()


async def brand(world: World) -> BrandNames:
    return (await read_brands(world.pool, [(world.tenant_id, world.brand_id)]))[world.brand_id]


async def waiting(pool: Pool) -> bool:
    return bool(await pool.fetchval("select exists (select from pg_locks where not granted)"))


async def test_only_what_is_asked_for_is_read(pool: Pool, world: World, client: Desktop, raw: RawAnswers) -> None:
    other = await World.create(pool, "Other")
    plain = await ingested(world, client, raw, ANSWER)
    doubtful = await ingested(world, client, raw, UNKNOWN)
    kimi = await ingested(world, client, raw, ANSWER, platform="kimi")
    foreign = await ingested(other, await other.client(), raw, ANSWER)
    late = await ingested(world, client, raw, ANSWER)
    desktops = await ingested(world, client, raw, ANSWER)
    keyless = await ingested(world, client, raw, ANSWER)
    defect = await ingested(world, client, raw, ANSWER)
    await pool.execute("update question_monitor_runs set extractor_version = 'v0' where id <> $1", defect)
    await pool.execute("update question_monitor_runs set business_date = business_date + 1 where id = $1", late)
    await pool.execute("update question_monitor_runs set failure_kind = 'desktop_error' where id = $1", desktops)
    await pool.execute("update question_monitor_runs set raw_answer_key = null where id = $1", keyless)
    await pool.execute("update question_monitor_runs set failure_kind = 'parser_error' where id = $1", defect)

    async def found(**wanted: Any) -> set[int]:
        seen: set[int] = set()

        async def look(readings: Sequence[Reading]) -> list[RunFact]:
            seen.update(reading.run.id for reading in readings)
            return await judge_in_thread(readings)

        reparse = Reparse(pool, raw, dry_run=True, judge=look)
        await walk(reparse, Selection(**wanted))
        assert await reparse.count(Selection(**wanted)) == len(seen)
        return seen

    everything = {plain, doubtful, kimi, foreign, late, defect}
    assert await found() == everything
    assert await found(tenant_id=world.tenant_id) == everything - {foreign}
    assert await found(tenant_id=other.tenant_id, brand_id=other.brand_id) == {foreign}
    assert await found(tenant_id=world.tenant_id, brand_id=other.brand_id) == set()
    assert await found(platform="kimi") == {kimi}
    assert await found(only_failed=True) == {doubtful}
    assert await found(only_badcases=True) == {doubtful}
    day = BUSINESS_DATE
    assert await found(tenant_id=world.tenant_id, brand_id=world.brand_id, last_day=day) == everything - {foreign, late}
    assert await found(tenant_id=world.tenant_id, brand_id=world.brand_id, first_day=day.replace(day=21)) == {late}
    assert await found(first_day=day.replace(day=21)) == {late}


async def test_a_walk_passes_days_that_are_read_already(
    pool: Pool, world: World, client: Desktop, raw: RawAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.reparse.DAYS", 2)
    runs = [await ingested(world, client, raw, ANSWER) for _ in range(7)]
    await pool.execute("update question_monitor_runs set business_date = business_date + id::int")
    await as_an_older_version_read_it(pool, runs[0], runs[6])
    assert (await walk(Reparse(pool, raw))).changed == 2
