"""`giveway settings` and `giveway explain` on a real database, for people and with --json for machines."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import asyncpg
import orjson
import pytest
from typer.testing import CliRunner, Result

from cli import app
from domain.errors import OverFuse
from store.database import open_pool
from tests.support.world import World

Run = Callable[..., Result]


@pytest.fixture
def run(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in this process, on the test's database."""
    for module in ("settings", "explain"):
        monkeypatch.setattr(f"commands.{module}.running_settings", lambda: SimpleNamespace(database_url=database_url))

    def invoke(*arguments: str, **given: Any) -> Result:
        return CliRunner().invoke(app, list(arguments), **given)

    return invoke


def machine(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return orjson.loads(result.stdout.splitlines()[-1])


def fetch(url: str, statement: str) -> Any:
    async def work() -> Any:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    return asyncio.run(work())


def test_a_setting_is_changed_shown_and_audited(run: Run, database_url: str) -> None:
    assert machine(run("settings", "set", "paused_lanes", '["retry"]', "--json"))["value"] == ["retry"]
    assert machine(run("settings", "set", "preempt_policy", "needed", "--json"))["version"] == 1
    assert machine(run("settings", "get", "paused_lanes", "--json"))["version"] == 1
    assert run("settings", "get", "preempt_policy").stdout == "needed\n"
    listed = machine(run("settings", "list", "--json"))
    assert {each["key"]: each["value"] for each in listed["settings"]}["preempt_policy"] == "needed"
    assert "cluster_per_minute" in run("settings", "list").stdout
    actors = fetch(database_url, "select array_agg(distinct actor) from audit_events")
    assert len(actors) == 1
    assert actors[0].startswith("cli:")


def test_over_a_fuse_is_refused_until_the_fuse_is_raised_which_needs_a_terminal_or_force(run: Run) -> None:
    refused = run("settings", "set", "cluster_per_minute", "600")
    assert isinstance(refused.exception, OverFuse)
    unasked = run("settings", "fuse", "cluster_per_minute", "600", input="y\n")
    assert (unasked.exit_code, "--force" in unasked.output) == (2, True)
    assert isinstance(run("settings", "set", "cluster_per_minute", "600").exception, OverFuse)
    assert run("settings", "fuse", "cluster_per_minute", "600", "--force").exit_code == 0
    assert machine(run("settings", "set", "cluster_per_minute", "600", "--json"))["value"] == 600


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("preempt_policy", "some", "one of all, needed"),
        ("paused_lanes", "high", "a list of lanes out of high, normal_boosted, normal, retry"),
        ("cluster_per_minute", "1.5", "a whole number like 300"),
        ("normal_floor", "x", "a number like 0.2"),
    ],
)
def test_a_value_of_the_wrong_kind_says_what_is_wanted(run: Run, key: str, value: str, wanted: str) -> None:
    assert f"{key} takes {wanted}, not" in str(run("settings", "set", key, value).exception)


def test_a_task_is_explained_in_words_and_as_json(run: Run, database_url: str) -> None:
    async def seed() -> int:
        pool = await open_pool(database_url, size=1)
        try:
            world = await World.create(pool)
            await world.leased(await world.client(), status="in_progress")
            return await world.business_task()
        finally:
            await pool.close()

    task = str(asyncio.run(seed()))
    told = run("explain", task)
    assert "waiting (platform_concurrency)" in told.stdout
    assert "keeps it" in told.stdout
    found = machine(run("explain", task, "--json"))
    assert (found["reason"], found["waiting"]["binding"]["limit"]) == ("platform_concurrency", 1)
