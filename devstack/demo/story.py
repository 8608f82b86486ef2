"""The demo's story: a batch runs, a person clicks, scheduled work gives way, everything ends, the numbers are shown."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from desktop.config import DesktopConfig
from desktop.events import EventKind
from desktop.fleet import run_fleet
from desktop.replay import ReplayDriver
from devstack.demo.journal import Journal
from devstack.demo.material import Material
from devstack.demo.report import gave_way_table, print_tables, visibility_table
from devstack.demo.rest import TenantApi
from devstack.demo.seed import Desk, Seeded, new_tenant, seed
from devstack.demo.server import Server, open_server
from store.audit import Integrity, check_integrity
from store.database import Pool, open_pool

SLOTS = 2
# The click asks for the questions that the batch reaches last.
CLICK_QUESTIONS = 2
CLICK_QUESTIONS_RECORDED = 6
OPEN_REQUEST = ("accepted", "dispatching", "running")
OPEN_BATCH = ("planned", "running", "paused", "cancelling")


class DemoFailed(Exception):
    """The story did not come to its end; says what was missing."""


@dataclass(frozen=True, slots=True)
class Options:
    """`speed` divides the phase times of the desktops; `patience` bounds each wait, in seconds."""

    state_dir: Path
    environ: Mapping[str, str]
    speed: float = 2.0
    seed: int = 7
    patience: float = 900.0


@dataclass(frozen=True, slots=True)
class Click:
    """What the click did, from the outside."""

    at: float
    answer: dict[str, Any]
    client_id: str


async def run_demo(material: Material, options: Options, console: Console) -> dict[str, Any]:
    """Run the whole story; returns the object of the last line. Raises DemoFailed."""
    for skipped in material.answers.skipped:
        console.print(f"[yellow]skipped[/] {skipped.file}: {skipped.reason}", highlight=False)
    async with open_server(options.state_dir, options.environ, lambda text: console.print(f"· {text}")) as server:
        pool = await open_pool(server.endpoints.database_url, size=2, name="giveway-demo")
        try:
            return await tell(server, pool, material, options, console)
        finally:
            await pool.close()


async def tell(server: Server, pool: Pool, material: Material, options: Options, console: Console) -> dict[str, Any]:
    tenant_id, workspace_id, token = await new_tenant(pool, server.settings, material)
    async with TenantApi(server.api_url, token) as api:
        seeded = await seed(api, tenant_id, workspace_id, material)
        journal = Journal({desk.client_id: desk.name for desk in seeded.desks})
        async with _desktops(server, seeded, material, options, journal):
            return await _run_batch_and_click(server, api, pool, seeded, material, journal, options, console)


@asynccontextmanager
async def _desktops(
    server: Server, seeded: Seeded, material: Material, options: Options, journal: Journal
) -> AsyncIterator[None]:
    driver = ReplayDriver(material.answers, seed=options.seed, speed=options.speed)
    configs = [_config(desk, server, options, driver) for desk in seeded.desks]
    stop = asyncio.Event()
    fleet = asyncio.create_task(run_fleet(configs, journal, stop=stop))
    try:
        yield
    finally:
        stop.set()
        await fleet


def _config(desk: Desk, server: Server, options: Options, driver: ReplayDriver) -> DesktopConfig:
    return DesktopConfig(
        client_id=desk.client_id,
        token=desk.token,
        ws_url=desk.ws_url,
        api_url=server.api_url,
        state_dir=options.state_dir / "desktops",
        driver=driver,
        max_concurrent=SLOTS,
        name=desk.name,
    )


async def _run_batch_and_click(
    server: Server,
    api: TenantApi,
    pool: Pool,
    seeded: Seeded,
    material: Material,
    journal: Journal,
    options: Options,
    console: Console,
) -> dict[str, Any]:
    await api.post(f"/plans/{seeded.plan_id}/run")
    batch_id = await _batch_started(api, seeded, options)
    if server.endpoints.temporal_ui_url:
        console.print(
            f"· Temporal UI: {server.endpoints.temporal_ui_url}/namespaces/giveway/workflows", highlight=False
        )
    with _bar(console) as progress:
        watching = asyncio.create_task(_watch_batch(api, batch_id, progress, options))
        try:
            click = await _click(api, seeded, material, journal, options, progress.console)
            request = await _request_ended(api, click, options)
            progress.console.print(_request_line(request), highlight=False)
            batch = await watching
        finally:
            watching.cancel()
    return await _conclude(api, pool, seeded, material, journal, console, batch, request, click, options)


def _bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, refresh_per_second=4)


async def _batch_started(api: TenantApi, seeded: Seeded, options: Options) -> int:
    async with asyncio.timeout(min(options.patience, 120)):
        while True:
            found = await api.get("/batches", brand_id=seeded.brand_id)
            if found["items"] and found["items"][0]["expected_count"]:
                batch_id: int = found["items"][0]["id"]
                return batch_id
            await asyncio.sleep(0.1)


async def _watch_batch(api: TenantApi, batch_id: int, progress: Progress, options: Options) -> dict[str, Any]:
    bar = progress.add_task("scheduled batch", total=None)
    async with asyncio.timeout(options.patience):
        while True:
            batch: dict[str, Any] = await api.get(f"/batches/{batch_id}")
            progress.update(bar, total=batch["expected_count"], completed=_settled(batch))
            if batch["status"] not in OPEN_BATCH:
                return batch
            await asyncio.sleep(0.3)


def _settled(batch: dict[str, Any]) -> int:
    return sum(int(batch[f"{name}_count"]) for name in ("completed", "failed", "skipped", "expired"))


async def _click(
    api: TenantApi, seeded: Seeded, material: Material, journal: Journal, options: Options, console: Console
) -> Click:
    """Wait until one desktop's slots are all busy with scheduled tasks, then collect now on that one."""
    client_ids = [desk.client_id for desk in seeded.desks]
    client_id = await journal.wait_until_busy(client_ids, SLOTS, min(options.patience, 120))
    if client_id is None:
        raise DemoFailed("no desktop had both slots busy with scheduled tasks within 120 s")
    count = CLICK_QUESTIONS if material.questions[0].platforms is None else CLICK_QUESTIONS_RECORDED
    body = {"question_ids": list(seeded.question_ids[-count:]), "target_client_id": client_id}
    at = time.monotonic()
    answer = await api.post(f"/brands/{seeded.brand_id}/collect-now", body)
    console.print(
        f"[bold green]collect now[/] on {journal.names[client_id]}: {answer['affected_task_count']} tasks, "
        f"{answer['interrupt_requested_count']} asked to give way, {answer['aborted_queued_count']} taken back, "
        f"generation {answer['interrupt_generation']}",
        highlight=False,
    )
    return Click(at, answer, client_id)


async def _request_ended(api: TenantApi, click: Click, options: Options) -> dict[str, Any]:
    async with asyncio.timeout(options.patience):
        while True:
            request: dict[str, Any] = await api.get(f"/collect-requests/{click.answer['request_id']}")
            if request["status"] not in OPEN_REQUEST:
                return request
            await asyncio.sleep(0.2)


def _request_line(request: dict[str, Any]) -> str:
    return (
        f"[bold green]request {request['status']}[/]: {request['completed_task_count']} of "
        f"{request['requested_task_count']} tasks collected"
    )


async def _conclude(
    api: TenantApi,
    pool: Pool,
    seeded: Seeded,
    material: Material,
    journal: Journal,
    console: Console,
    batch: dict[str, Any],
    request: dict[str, Any],
    click: Click,
    options: Options,
) -> dict[str, Any]:
    overview = await _projected(api, seeded, batch, options)
    platforms = (await api.get(f"/brands/{seeded.brand_id}/platform-stats", days=1))["items"]
    gave_way = journal.gave_way(click.at)
    print_tables(
        console,
        gave_way_table(gave_way, journal.names),
        visibility_table(overview, platforms, material.brand["name"]),
    )
    integrity = await check_integrity(pool, seeded.tenant_id)
    return _summary(journal, batch, request, click, len(gave_way), integrity, overview, platforms)


async def _projected(api: TenantApi, seeded: Seeded, batch: dict[str, Any], options: Options) -> dict[str, Any]:
    """The overview once the last answer is in it."""
    async with asyncio.timeout(min(options.patience, 60)):
        while True:
            overview: dict[str, Any] = await api.get(f"/brands/{seeded.brand_id}/overview", days=1)
            if overview["collected_count"] >= batch["completed_count"]:
                return overview
            await asyncio.sleep(0.1)


def _summary(
    journal: Journal,
    batch: dict[str, Any],
    request: dict[str, Any],
    click: Click,
    gave_way: int,
    integrity: Integrity,
    overview: dict[str, Any],
    platforms: list[dict[str, Any]],
) -> dict[str, Any]:
    return {
        "batch_expected": batch["expected_count"],
        "batch_completed": batch["completed_count"],
        "batch_failed": batch["failed_count"],
        "request_status": request["status"],
        "request_tasks": click.answer["affected_task_count"],
        "preempted": gave_way,
        "aborted_queued": click.answer["aborted_queued_count"],
        "generation": click.answer["interrupt_generation"],
        "click_to_frame_ms": journal.first_high(click.at, EventKind.FRAME_RECEIVED),
        "click_to_started_ms": journal.first_high(click.at, EventKind.STARTED),
        "lost": integrity.lost,
        "duplicated": integrity.duplicated,
        "visibility": {
            "mention_rate": overview["mention_rate"],
            "mentioned": overview["mentioned_count"],
            "collected": overview["collected_count"],
            "expected": overview["expected_count"],
            "platforms": {row["platform"]: (row["visibility"] or {}).get("mention_rate") for row in platforms},
        },
    }
