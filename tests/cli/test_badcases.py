"""`giveway badcases`: from a doubtful answer on the queue to a regression file that fails with the rule it protects."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner, Result

from activities.ingest import IngestShard
from cli import app
from domain.parsing.result import parse_answer
from store.database import Pool
from store.raw_answers import RawAnswers
from store.residents import take
from tests.support.badcases import AMBIGUOUS, doubtful
from tests.support.result_queues import SHARD, ListQueue, until
from tests.support.results import chat_answer, encode, result
from tests.support.world import World

Run = Callable[..., Any]


@pytest.fixture
async def world(pool: Pool) -> World:
    made = await World.create(pool)
    await pool.execute("update brands set aliases = '{GO}' where id = $1", made.brand_id)
    return made


@pytest.fixture
def raw(tmp_path: Path) -> RawAnswers:
    return RawAnswers(f"file://{tmp_path}/raw")


@pytest.fixture
def run(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command on the test's database, in a thread: it has an event loop of its own."""
    given = SimpleNamespace(database_url=database_url, raw_store_url=f"file://{tmp_path}/raw")
    for module in ("badcases", "badcase_files", "connections"):
        monkeypatch.setattr(f"commands.{module}.running_settings", lambda: given)

    async def invoke(*arguments: object) -> Result:
        line = ["badcases", *map(str, arguments)]
        return await asyncio.to_thread(lambda: CliRunner().invoke(app, line))

    return invoke


async def machine(run: Run, *arguments: object, code: int = 0) -> Any:
    done = await run(*arguments, "--json")
    assert done.exit_code == code, done.output
    return orjson.loads(done.stdout.splitlines()[-1])


async def test_a_labelled_answer_becomes_a_regression_test_that_fails_with_the_rule_it_protects(
    pool: Pool, world: World, raw: RawAnswers, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, client = ListQueue(), await world.client()
    lease = await world.leased(client, status="in_progress")
    message = result(world, lease, client, raw=chat_answer(AMBIGUOUS))
    await queue.publish(encode(message), message.attempt_id)
    epoch = await take(pool, "ingest/0", "test")
    ingest = IngestShard(pool, queue.consumer, raw, queue.dead_letter).run("ingest/0", epoch, SHARD)
    running = asyncio.create_task(ingest)

    async def arrived() -> bool:
        return bool(await pool.fetchval("select count(*) from monitoring_parse_badcases"))

    await until(arrived)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    ((case,),) = [
        [
            each["id"]
            for each in (await machine(run, "list", "--state", "open", "--tenant", world.tenant_id))["badcases"]
        ]
    ]
    assert (await machine(run, "show", case))["text"] == AMBIGUOUS
    labelled = await machine(run, "label", case, "--mention", "Acme=1@1", "--note", "the brand, not the game")
    assert labelled == {"case": case, "version": 2, "decides_figures": True}

    file = tmp_path / "badcases.jsonl"
    assert (await machine(run, "export", file))["added"] == 1
    assert await machine(run, "check", file) == {"cases": 1, "differences": []}

    def without_aliases(text: str, *, names: Any, **given: Any) -> Any:
        return parse_answer(text, names=[type(each)(each.key, each.role, each.name) for each in names], **given)

    monkeypatch.setattr("domain.readings.parse_answer", without_aliases)
    found = await machine(run, "check", file, code=1)
    assert [(each["field"], each["expected"], each["found"]) for each in found["differences"]] == [("Acme.count", 1, 0)]
    told = await run("check", file)
    assert (told.exit_code, "Acme.count" in told.stdout) == (1, True)


async def test_an_export_adds_and_updates_and_leaves_other_cases_alone(
    world: World, raw: RawAnswers, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "badcases.jsonl"
    first, second = [await doubtful(world, raw) for _ in range(2)]
    await run("label", first, "--mention", "Acme=1@1")
    assert (await machine(run, "export", file))["added"] == 1
    await run("label", first, "--take-back")
    await run("label", second, "--nobody")
    assert (await machine(run, "export", file))["added"] == 1
    await run("label", second, "--mention", "GO=1@1")
    done = await machine(run, "export", file, "--brand", world.brand_id)
    assert (done["added"], done["changed"], done["unchanged"], done["skipped"]) == (0, 1, 0, {})
    lines = [orjson.loads(line) for line in file.read_text().splitlines()]
    assert [line["expected"]["mentions"][0]["count"] for line in lines] == [1, 1]
    assert lines[0]["body"] == chat_answer(AMBIGUOUS)


async def test_an_answer_that_is_gone_or_another_by_now_is_not_exported(
    pool: Pool, world: World, raw: RawAnswers, run: Run, tmp_path: Path
) -> None:
    gone, other = [await doubtful(world, raw) for _ in range(2)]
    for case in (gone, other):
        await run("label", case, "--no-answer")
    keys = dict(await pool.fetch("select id, raw_answer_key from monitoring_parse_badcases"))
    await raw.put(keys[other], b"another body")
    (tmp_path / "raw" / keys[gone]).unlink()
    done = await machine(run, "export", tmp_path / "out.jsonl")
    assert (done["added"], len(done["skipped"])) == (0, 2)
    assert (tmp_path / "out.jsonl").read_text() == ""


async def test_people_get_tables(world: World, raw: RawAnswers, run: Run) -> None:
    case = await doubtful(world, raw)
    assert "ambiguous_name" in (await run("list")).stdout
    shown = (await run("show", case)).stdout
    assert AMBIGUOUS in shown
    assert "its run's figures follow" in (await run("label", case, "--absent")).stdout
    assert "labelled" not in (await run("list", "--state", "open")).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "--state", "closed"],
        ["label", "1"],
        ["label", "1", "--nobody", "--no-answer"],
        ["label", "1", "--mention", "Acme"],
        ["label", "1", "--mention", "Acme=0@1"],
        ["label", "1", "--take-back", "--nobody"],
        ["check", "/no/such/file"],
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, ["badcases", *arguments]).exit_code == 2
