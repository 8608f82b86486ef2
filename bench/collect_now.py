"""`giveway bench collect-now`: from the click to the frame at the desktop, and to the started task.

Everything runs on this machine: client, API, hub, worker, PostgreSQL, RabbitMQ, Temporal.
"""

import asyncio
import os
import time
from typing import Any

from rich.console import Console
from rich.progress import track

from api.auth import issue_development_token
from bench.bare_limit import commits, frames, publish_consumes
from bench.figures import percentile, summary
from desktop.config import DesktopConfig
from desktop.events import EventKind
from desktop.fleet import run_fleet
from desktop.recorded import load_answers, samples_folder
from desktop.replay import ReplayDriver
from devstack.commands import STATE_DIR
from devstack.demo.journal import Journal
from devstack.demo.material import Material, Question
from devstack.demo.rest import TenantApi
from devstack.demo.seed import Seeded, new_tenant, seed
from devstack.demo.server import Server, open_server
from store.database import Pool, open_pool
from store.statements import statements

SQL = statements("bench")

# A user may ask 20 times an hour: each signs in for fewer.
CLICKS_A_USER = 15
TARGET_P50_MS, TARGET_P99_MS = 100.0, 500.0


async def run_bench(requests: int, backlog: int, console: Console) -> dict[str, Any]:
    """Clicks on an idle system and with a backlog of normal tasks, and the bare limit of the same run."""
    STATE_DIR.mkdir(parents=True, exist_ok=True)
    async with open_server(STATE_DIR, dict(os.environ), lambda text: console.print(f"· {text}")) as server:
        pool = await open_pool(server.endpoints.database_url, size=2, name="giveway-bench")
        try:
            limit = await _limit(server, requests)
            idle = await _condition(server, pool, requests, 0, console)
            loaded = await _condition(server, pool, requests, backlog, console)
        finally:
            await pool.close()
    return _figures(limit, idle, loaded, backlog)


async def _limit(server: Server, times: int) -> dict[str, list[float]]:
    return {
        "commit_ms": await commits(server.endpoints.database_url, times),
        "publish_consume_ms": await publish_consumes(server.endpoints.amqp_url, times),
        "frame_ms": await frames(times),
    }


async def _condition(
    server: Server, pool: Pool, requests: int, backlog: int, console: Console
) -> dict[str, list[float]]:
    """One tenant with one idle desktop; a click at a time, each on a question of its own."""
    material = _material(requests)
    tenant_id, workspace_id, token = await new_tenant(pool, server.settings, material)
    async with TenantApi(server.api_url, token) as api:
        seeded = await seed(api, tenant_id, workspace_id, material, desks=1)
    if backlog:
        await pool.execute(SQL["backlog"], seeded.brand_id, backlog, timeout=300)
        await pool.execute("analyze monitoring_collect_tasks")
    journal = Journal({})
    stop = asyncio.Event()
    fleet = asyncio.create_task(run_fleet([_config(seeded, server, material)], journal, stop=stop))
    try:
        return await _clicks(server, seeded, workspace_id, journal, requests, f"{backlog:,} tasks waiting", console)
    finally:
        stop.set()
        await fleet


def _material(requests: int) -> Material:
    answers = load_answers(samples_folder())
    questions = tuple(Question(f"Question number {number}?", None) for number in range(requests + 3))
    return Material(answers, {"name": "Bench", "aliases": [], "domains": []}, [], questions, ("openai",))


def _config(seeded: Seeded, server: Server, material: Material) -> DesktopConfig:
    desk = seeded.desks[0]
    return DesktopConfig(
        client_id=desk.client_id,
        token=desk.token,
        ws_url=desk.ws_url,
        api_url=server.api_url,
        state_dir=STATE_DIR / "desktops",
        driver=ReplayDriver(material.answers, speed=0),
    )


async def _clicks(
    server: Server,
    seeded: Seeded,
    workspace_id: int,
    journal: Journal,
    requests: int,
    label: str,
    console: Console,
) -> dict[str, list[float]]:
    figures: dict[str, list[float]] = {"click_to_frame_ms": [], "click_to_started_ms": []}
    questions = list(seeded.question_ids)
    for number in track(range(requests + 3), description=label, console=console):
        token = issue_development_token(
            server.settings,
            tenant_id=seeded.tenant_id,
            workspaces=[workspace_id],
            user_id=10 + number // CLICKS_A_USER,
            role="admin",
        )
        async with TenantApi(server.api_url, token) as api:
            measured = await _click(api, seeded, journal, questions[number])
        if number >= 3:  # the first three warm everything up
            for name, value in measured.items():
                figures[name].append(value)
    return figures


async def _click(api: TenantApi, seeded: Seeded, journal: Journal, question_id: int) -> dict[str, float]:
    began = time.monotonic()
    body = {"question_ids": [question_id], "platforms": ["openai"]}
    answer = await api.click(seeded.brand_id, body)
    async with asyncio.timeout(60):
        while (started := journal.first_high(began, EventKind.STARTED)) is None:
            await asyncio.sleep(0.005)
        while (await api.get(f"/collect-requests/{answer['request_id']}"))["status"] != "succeeded":
            await asyncio.sleep(0.02)
    frame = journal.first_high(began, EventKind.FRAME_RECEIVED)
    assert frame is not None
    return {"click_to_frame_ms": frame, "click_to_started_ms": started}


def _figures(
    limit: dict[str, list[float]], idle: dict[str, list[float]], loaded: dict[str, list[float]], backlog: int
) -> dict[str, Any]:
    bare = sum(percentile(values, 0.5) for values in limit.values())
    conditions = {"idle": idle, "backlogged": loaded}
    shown = {name: {key: summary(values) for key, values in figures.items()} for name, figures in conditions.items()}
    return {
        "bench": "collect-now",
        "backlog": backlog,
        **shown,
        "limit": {**{name: summary(values) for name, values in limit.items()}, "sum_p50_ms": round(bare, 2)},
        "frame_p50_over_limit": {
            name: round(figures["click_to_frame_ms"]["p50"] / bare, 2) for name, figures in shown.items()
        },
        "targets_ms": {"p50": TARGET_P50_MS, "p99": TARGET_P99_MS},
        "met": all(
            figures["click_to_frame_ms"]["p50"] <= TARGET_P50_MS
            and figures["click_to_frame_ms"]["p99"] <= TARGET_P99_MS
            for figures in shown.values()
        ),
    }
