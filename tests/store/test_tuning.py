"""The weekly retuning of interrupt timeouts (1-dispatch §1.5, dispatch §10.5)."""

from collections.abc import Sequence
from typing import Any

import pytest

from domain.messages import RequestRef, TunedPlatform
from store import requests
from store.database import Pool
from store.tuning import SQL, tune_timeouts
from tests.support.backlog import add_backlog, add_history, explain
from tests.support.clicks import accepted, click
from tests.support.world import World


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


async def measured(world: World, platform: str, intervals: Sequence[float], *, days_ago: float = 1) -> None:
    """Attempts on the platform that ended so long ago, each with its interval in ms."""
    task, client = await world.business_task(platform=platform), await world.client(online=False)
    await world.pool.execute(
        "insert into desktop_task_attempts (id, tenant_id, monitor_task_id, client_id, attempt, token_hash, outcome,"
        " ended_at, safe_point_interval_ms)"
        " select gen_random_uuid(), $1, $2, $3, 1, '', 'preempted', now() - make_interval(secs => $5), i"
        " from unnest($4::float8[]) i",
        world.tenant_id, task, client.id, list(intervals), days_ago * 86400,
    )  # fmt: skip


async def tuned(world: World, platform: str, **more: Any) -> TunedPlatform:
    """Tune everything; what became of one platform."""
    result = await tune_timeouts(world.pool, **more)
    [found] = [each for each in result.platforms if each.platform == platform]
    return found


async def setting(world: World, platform: str) -> dict[str, Any] | None:
    row = await world.pool.fetchrow("select * from platform_settings where platform_id = $1", platform)
    return None if row is None else dict(row)


async def audited(world: World) -> list[dict[str, Any]]:
    rows = await world.pool.fetch("select actor, subject, detail from audit_events where action = 'timeouts_tuned'")
    return [dict(row) for row in rows]


async def test_a_platform_gets_its_timeouts_from_its_own_p95_and_the_change_is_audited(world: World) -> None:
    await measured(world, "qwen", [40_000.0] * 60)
    await measured(world, "openai", [20_000.0] * 50)
    assert (await tuned(world, "qwen")).outcome == "tuned"
    new, old = await setting(world, "qwen"), await setting(world, "openai")
    assert new is not None
    assert old is not None
    assert (new["interrupt_soft_timeout_ms"], new["interrupt_hard_timeout_ms"], new["version"]) == (60_000, 180_000, 1)
    assert (old["interrupt_soft_timeout_ms"], old["interrupt_hard_timeout_ms"], old["version"]) == (30_000, 90_000, 2)
    first, second = sorted(await audited(world), key=lambda row: str(row["subject"]))
    assert first == {
        "actor": "tune-timeouts",
        "subject": "openai",
        "detail": {
            "before": {"soft_ms": 15_000, "hard_ms": 45_000},
            "after": {"soft_ms": 30_000, "hard_ms": 90_000},
            "samples": 50,
            "p95_ms": 20_000,
        },
    }
    assert (second["subject"], second["detail"]["before"]) == ("qwen", None)


async def test_the_p95_is_of_the_last_week_alone(world: World) -> None:
    await measured(world, "qwen", [float(ms) for ms in range(1000, 101_000, 1000)])
    await measured(world, "qwen", [200_000.0] * 500, days_ago=7.1)
    found = await tuned(world, "qwen")
    assert (found.samples, found.p95_ms) == (100, pytest.approx(95_050))
    assert found.after == (142_575, 427_725)


@pytest.mark.parametrize(("samples", "outcome"), [(0, "too_few_samples"), (49, "too_few_samples"), (50, "tuned")])
async def test_too_few_samples_change_nothing(world: World, samples: int, outcome: str) -> None:
    await measured(world, "google", [60_000.0] * samples)
    assert (await tuned(world, "google")).outcome == outcome
    row = await setting(world, "google")
    assert row is not None
    assert row["version"] == (2 if outcome == "tuned" else 1)


async def test_what_an_operator_has_pinned_stays(world: World) -> None:
    await measured(world, "google", [60_000.0] * 60)
    await world.pool.execute("update platform_settings set timeouts_pinned = true where platform_id = 'google'")
    found = await tuned(world, "google")
    assert (found.outcome, found.after, found.p95_ms) == ("pinned", (30_000, 90_000), 60_000)
    assert await audited(world) == []


async def test_a_dry_run_says_the_same_and_changes_nothing(world: World) -> None:
    await measured(world, "qwen", [60_000.0] * 60)
    planned = await tuned(world, "qwen", dry_run=True)
    assert (await setting(world, "qwen"), await audited(world)) == (None, [])
    assert await tuned(world, "qwen") == planned


async def test_tuning_again_changes_nothing_more(world: World) -> None:
    await measured(world, "qwen", [60_000.0] * 60)
    await tuned(world, "qwen")
    before = await setting(world, "qwen")
    assert (await tuned(world, "qwen")).outcome == "unchanged"
    assert await setting(world, "qwen") == before
    assert len(await audited(world)) == 1


async def test_other_settings_of_the_platform_stay(world: World) -> None:
    await world.platform_limit("qwen", 2)
    await world.pool.execute("update platform_settings set paused = true where platform_id = 'qwen'")
    await measured(world, "qwen", [60_000.0] * 60)
    await tuned(world, "qwen")
    row = await setting(world, "qwen")
    assert row is not None
    assert (row["max_concurrent"], row["paused"], row["version"]) == (2, True, 2)


async def test_a_new_timeout_is_in_force_at_once_for_accepts_and_for_running_interrupts(world: World) -> None:
    await world.plan()
    client = await world.client()
    await world.leased(client, status="in_progress", platform="doubao")
    request = (await accepted(world, question_ids=[(await world.question()).id])).request_id
    await measured(world, "doubao", [40_000.0] * 60)
    await tuned(world, "doubao")
    late = RequestRef(
        request_id=request, tenant_id=world.tenant_id, client_id=client.id, generation=1, waited_ms=45_000
    )
    counters = await requests.force_release(world.pool, late)
    assert (counters.touched, counters.hard_in_ms) == (0, 135_000)
    other = await world.client()
    await world.leased(other, status="in_progress", platform="doubao")
    again = await click(world, question_ids=[(await world.question()).id], target_client_id=other.id)
    assert again.hard_timeout_ms == 180_000


async def test_measuring_reads_the_measured_attempts_alone(world: World) -> None:
    client = await world.client()
    await add_backlog(world, 4_000)
    await add_history(world, client.id)
    await world.pool.execute(
        "insert into desktop_task_attempts (id, tenant_id, monitor_task_id, client_id, attempt, token_hash, ended_at)"
        " select gen_random_uuid(), tenant_id, id, $1, 1, '', now() from monitoring_collect_tasks",
        client.id,
    )
    await measured(world, "qwen", [1000.0] * 20)
    await world.pool.execute("vacuum analyze")
    plan = await explain(world.pool, SQL["measure"], 7, 0.95)
    assert "desktop_task_attempts_intervals" in plan.indexes
    assert not plan.seq_scans & {"desktop_task_attempts", "monitoring_collect_tasks"}
