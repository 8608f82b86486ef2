"""`giveway reparse` on an installation's database and raw answers (3-results §3.3)."""

import asyncio
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner, Result

import cli
from domain.parsing.result import EXTRACTOR_VERSION
from settings import load_settings
from store.database import Pool
from store.raw_answers import RawAnswers, RawStoreMisconfigured
from tests.support.reparsing import as_an_older_version_read_it, facts, ingested
from tests.support.results import chat_answer
from tests.support.s3 import S3Server, store_on
from tests.support.world import World

ANSWER = chat_answer("Acme is the best choice.", urls=["https://acme.com/a", "https://example.com/b"])


@pytest.fixture(autouse=True)
def installation(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The environment of the command."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("RAW_STORE_URL", (tmp_path / "raw").as_uri())
    load_settings.cache_clear()
    yield
    load_settings.cache_clear()


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
def raw(tmp_path: Path) -> RawAnswers:
    return RawAnswers((tmp_path / "raw").as_uri())


async def giveway(*words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, cli.app, ["reparse", *words], standalone_mode=False)


def summary(done: Result) -> dict[str, Any]:
    loaded: dict[str, Any] = orjson.loads(done.stdout.splitlines()[-1])
    return loaded


async def stale_runs(world: World, raw: RawAnswers, count: int) -> dict[str, list[Any]]:
    """So many runs as an older version read them; returns the facts that they are to have."""
    client = await world.client()
    runs = [await ingested(world, client, raw, ANSWER) for _ in range(count)]
    fresh = await facts(world.pool)
    await as_an_older_version_read_it(world.pool, *runs)
    return fresh


async def test_the_facts_are_brought_to_the_version_of_this_build(pool: Pool, world: World, raw: RawAnswers) -> None:
    fresh = await stale_runs(world, raw, 3)
    old = await facts(pool)
    would = summary(await giveway("--dry-run", "--json"))
    assert await facts(pool) == old
    assert (would["changed"], would["dry_run"], len(would["examples"])) == (3, True, 3)
    assert would["examples"][0]["changes"] == ["Acme: 0 → 1", "citations: 1 → 2"]
    limited = summary(await giveway("--json", "--limit", "1", "--extractor-version", EXTRACTOR_VERSION))
    assert (limited["runs"], limited["finished"], limited["days_marked"]) == (1, True, 1)
    done = await giveway("--brand", str(world.brand_id), "--platform", "qwen")
    assert done.return_value == 0
    assert "changed" in done.stdout
    # Where nobody watches a terminal.
    assert "reparse: 2 of 2 runs, 2 changed" in done.stderr
    assert await facts(pool) == fresh


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--extractor-version", "v0"], EXTRACTOR_VERSION),
        (["--only-failed", "--only-badcases"], "exclude"),
        (["--from", "2026-04-21", "--to", "2026-04-20"], "--from"),
        (["--platform", "nowhere"], "nowhere"),
        (["--brand", "4711"], "no brand 4711"),
    ],
)
async def test_what_cannot_be_meant_is_wrong_usage(words: list[str], said: str) -> None:
    done = await giveway(*words)
    assert getattr(done.exception, "exit_code", None) == 2
    assert said in str(done.exception)


async def test_a_folder_that_is_not_there_is_not_made(world: World, tmp_path: Path) -> None:
    done = await giveway()
    assert isinstance(done.exception, RawStoreMisconfigured)
    assert not (tmp_path / "raw").exists()


async def test_it_waits_for_the_store_and_an_interrupt_ends_it_after_the_runs_under_way(
    pool: Pool, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with S3Server(tmp_path / "s3") as server:
        monkeypatch.setenv("RAW_STORE_URL", "s3://answers/raw")
        fresh = await stale_runs(world, store_on(server.endpoint, monkeypatch), 3)
        await server.stop()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "cli", "reparse", "--concurrency", "2", cwd=Path(cli.__file__).parent,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        await process.stderr.readuntil(b"waits")
        process.send_signal(signal.SIGINT)
        await process.stderr.readuntil(b"once more stops at once")
        await server.start()
        out, _ = await process.communicate()
    assert process.returncode == 130
    assert b"the same command goes on" in out
    assert await facts(pool) == fresh
