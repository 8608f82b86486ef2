"""The main job on real processes: a batch gives way to a click, also when processes are killed in the middle."""

import asyncio
import io
import os
import signal
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from devstack.demo.material import Material, samples
from devstack.demo.story import Options, tell
from store.audit import Integrity, check_integrity
from store.database import Pool
from store.settings import write_dispatch_setting
from tests.e2e.installation import Installation
from tests.e2e.scraping import check_metrics, check_operations

pytestmark = pytest.mark.timeout(300)


def small(material: Material, questions: int) -> Material:
    """Fewer questions: the same story in less time."""
    return replace(material, questions=material.questions[:questions])


async def told(installation: Installation, pool: Pool, questions: int, speed: float) -> dict[str, Any]:
    options = Options(installation.state_dir, os.environ, speed=speed, patience=200)
    console = Console(file=io.StringIO(), force_terminal=False)
    return await tell(installation.server, pool, small(samples(), questions), options, console)


async def test_a_batch_gives_way_to_a_click_and_everything_is_collected_once(
    installation: Installation, pool: Pool
) -> None:
    outcome = await told(installation, pool, questions=10, speed=4)
    assert outcome["batch_expected"] == outcome["batch_completed"] == 40
    assert (outcome["request_status"], outcome["request_tasks"]) == ("succeeded", 8)
    assert outcome["preempted"] >= 1
    assert (outcome["lost"], outcome["duplicated"]) == (0, 0)
    assert outcome["visibility"]["collected"] == outcome["visibility"]["expected"] == 40
    await check_metrics(installation, outcome)
    await check_operations(installation)
    await on_the_legacy_path(installation, pool)


async def on_the_legacy_path(installation: Installation, pool: Pool) -> None:
    """The same story for a new tenant after the roll-out was set back, on the installation that runs already."""
    async with pool.acquire() as connection:
        await write_dispatch_setting(connection, "rollout_percent", 0, actor="test")
    outcome = await told(installation, pool, questions=4, speed=4)
    assert outcome["batch_expected"] == outcome["batch_completed"] == 16
    assert (outcome["request_status"], outcome["request_tasks"]) == ("succeeded", 8)
    assert (outcome["lost"], outcome["duplicated"]) == (0, 0)
    tenant_id = await pool.fetchval("select max(id) from tenants")
    assert await pool.fetchval("select count(*) from desktop_tasks where tenant_id = $1", tenant_id) == 0
    leases = "select count(*) from desktop_task_attempts where tenant_id = $1 and task_id is null"
    assert await pool.fetchval(leases, tenant_id) >= 16
    assert await check_integrity(pool, tenant_id) == Integrity(lost=0, duplicated=0, miscounted=0, overhanging=0)


async def kill_when(installation: Installation, pool: Pool, name: str, completed: int) -> None:
    """kill -9 a process once so many results are in; the supervisor starts it again."""
    while await pool.fetchval("select count(*) from question_monitor_runs") < completed:
        await asyncio.sleep(0.02)
    pid = installation.supervisor.pid(name)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("name", ["worker", "serve"])
async def test_killing_a_process_in_the_middle_loses_and_doubles_nothing(
    installation: Installation, pool: Pool, name: str
) -> None:
    killing = asyncio.create_task(kill_when(installation, pool, name, completed=6))
    try:
        outcome = await told(installation, pool, questions=8, speed=4)
    finally:
        killing.cancel()
    restarts = {status.name: status.restarts for status in installation.supervisor.status()}
    assert restarts[name] == 1
    assert outcome["batch_completed"] + outcome["batch_failed"] == outcome["batch_expected"] == 32
    assert outcome["batch_failed"] == 0
    assert outcome["request_status"] == "succeeded"
    assert (outcome["lost"], outcome["duplicated"]) == (0, 0)
    tenant_id = await pool.fetchval("select max(id) from tenants")
    assert (await check_integrity(pool, tenant_id)).miscounted == 0
