"""The demo's story: a batch runs, a person clicks, scheduled work gives way, everything ends, the numbers are shown."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
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
from store.audit import check_integrity
from store.database import Pool, open_pool

SLOTS = 2
# The batch is under way when the person clicks, and the click asks for the questions that it reaches last.
CLICK_AFTER = 6
CLICK_QUESTIONS = 2
CLICK_QUESTIONS_RECORDED = 6
OPEN_REQUEST = ("accepted", "dispatching", "running")
OPEN_BATCH = ("planned", "running", "paused", "cancelling")

Body = dict[str, Any]


class DemoFailed(Exception):
    """The story did not come to its end; says what was missing and where to look."""

    code = "demo_failed"


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
    """What the click did, from the outside. `at` is the monotonic time of the call."""

    at: float
    answer: Body


async def run_demo(material: Material, options: Options, console: Console) -> Body:
    """Run the whole story on the stack of the state folder; returns the object of the last line. DemoFailed."""
    for skipped in material.answers.skipped:
        console.print(f"[yellow]skipped[/] {skipped.file}: {skipped.reason}", highlight=False)
    async with open_server(options.state_dir, options.environ, lambda text: console.print(f"· {text}")) as server:
        pool = await open_pool(server.endpoints.database_url, size=2, name="giveway-demo")
        try:
            return await tell(server, pool, material, options, console)
        finally:
            await pool.close()


async def tell(server: Server, pool: Pool, material: Material, options: Options, console: Console) -> Body:
    """The story on a running server: a tenant and two desktops of its own."""
    tenant_id, workspace_id, token = await new_tenant(pool, server.settings, material)
    async with TenantApi(server.api_url, token) as api:
        seeded = await seed(api, tenant_id, workspace_id, material)
        journal = Journal({desk.client_id: desk.name for desk in seeded.desks})
        story = Story(server, api, pool, seeded, material, journal, options, console)
        async with story.desktops():
            return await story.run()


@dataclass(frozen=True, slots=True)
class Story:
    """One run, through the public interfaces; only the final count looks into the database."""

    server: Server
    api: TenantApi
    pool: Pool
    seeded: Seeded
    material: Material
    journal: Journal
    options: Options
    console: Console

    @asynccontextmanager
    async def desktops(self) -> AsyncIterator[None]:
        """Both desktops, running."""
        driver = ReplayDriver(self.material.answers, seed=self.options.seed, speed=self.options.speed)
        stop = asyncio.Event()
        configs = [self._config(desk, driver) for desk in self.seeded.desks]
        fleet = asyncio.create_task(run_fleet(configs, self.journal, stop=stop))
        try:
            yield
        finally:
            stop.set()
            await fleet

    def _config(self, desk: Desk, driver: ReplayDriver) -> DesktopConfig:
        return DesktopConfig(
            client_id=desk.client_id,
            token=desk.token,
            ws_url=desk.ws_url,
            api_url=self.server.api_url,
            state_dir=self.options.state_dir / "desktops",
            driver=driver,
            max_concurrent=SLOTS,
            name=desk.name,
        )

    async def run(self) -> Body:
        """Batch, click, and both ends."""
        await self.api.post(f"/plans/{self.seeded.plan_id}/run")
        batch_id = await self._batch_started()
        if self.server.endpoints.temporal_ui_url:
            self.console.print(f"· Temporal UI: {self.server.endpoints.temporal_ui_url}", highlight=False)
        with self._bar() as progress:
            watching = asyncio.create_task(self._watch_batch(batch_id, progress))
            try:
                click = await self._click()
                request = await self._request_ended(click)
                batch = await watching
            finally:
                watching.cancel()
        return await self._conclude(batch, request, click)

    def _bar(self) -> Progress:
        columns = (TextColumn("{task.description}"), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn())
        return Progress(*columns, console=self.console, refresh_per_second=4)

    async def _until(self, what: str, limit: float, look: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Look every 0.2 s until something is found; DemoFailed after `limit` seconds."""
        try:
            async with asyncio.timeout(min(limit, self.options.patience)):
                while not (found := await look()):
                    await asyncio.sleep(0.2)
        except TimeoutError:
            logs = self.options.state_dir / "logs"
            raise DemoFailed(f"{what} within {limit:g} s; look at {logs}/worker.log and serve.log") from None
        return found

    async def _batch_started(self) -> int:
        async def look() -> int | None:
            found = (await self.api.get("/batches", brand_id=self.seeded.brand_id))["items"]
            return found[0]["id"] if found and found[0]["expected_count"] else None

        batch_id: int = await self._until("the batch did not start", 120, look)
        return batch_id

    async def _watch_batch(self, batch_id: int, progress: Progress) -> Body:
        bar = progress.add_task("scheduled batch", total=None)

        async def look() -> Body | None:
            batch: Body = await self.api.get(f"/batches/{batch_id}")
            progress.update(bar, total=batch["expected_count"], completed=_settled(batch))
            return None if batch["status"] in OPEN_BATCH else batch

        batch: Body = await self._until("the batch did not end", self.options.patience, look)
        return batch

    async def _click(self) -> Click:
        """Collect now on the desktop whose slots are all busy with scheduled tasks."""
        client_ids = [desk.client_id for desk in self.seeded.desks]
        limit = min(self.options.patience, 120)
        client_id = await self.journal.wait_until_busy(client_ids, SLOTS, CLICK_AFTER, limit)
        if client_id is None:
            raise DemoFailed(f"no desktop had both slots busy with scheduled tasks within {limit:g} s")
        count = CLICK_QUESTIONS if self.material.questions[0].platforms is None else CLICK_QUESTIONS_RECORDED
        body = {"question_ids": list(self.seeded.question_ids[-count:]), "target_client_id": client_id}
        at = time.monotonic()
        answer: Body = await self.api.click(self.seeded.brand_id, body)
        self.console.print(_click_line(self.journal.names[client_id], answer), highlight=False)
        return Click(at, answer)

    async def _request_ended(self, click: Click) -> Body:
        async def look() -> Body | None:
            request: Body = await self.api.get(f"/collect-requests/{click.answer['request_id']}")
            return None if request["status"] in OPEN_REQUEST else request

        request: Body = await self._until("the request did not end", self.options.patience, look)
        self.console.print(_request_line(request), highlight=False)
        return request

    async def _conclude(self, batch: Body, request: Body, click: Click) -> Body:
        overview = await self._overview_with(batch["completed_count"])
        platforms = (await self.api.get(f"/brands/{self.seeded.brand_id}/platform-stats", days=1))["items"]
        gave_way = self.journal.gave_way(click.at)
        print_tables(
            self.console,
            gave_way_table(gave_way, self.journal.names),
            visibility_table(overview, platforms, self.material.brand["name"]),
        )
        integrity = await check_integrity(self.pool, self.seeded.tenant_id)
        return {
            "batch_expected": batch["expected_count"],
            "batch_completed": batch["completed_count"],
            "batch_failed": batch["failed_count"],
            "request_status": request["status"],
            "request_tasks": click.answer["affected_task_count"],
            "preempted": len(gave_way),
            "aborted_queued": click.answer["aborted_queued_count"],
            "generation": click.answer["interrupt_generation"],
            "click_to_frame_ms": self.journal.first_high(click.at, EventKind.FRAME_RECEIVED),
            "click_to_started_ms": self.journal.first_high(click.at, EventKind.STARTED),
            "lost": integrity.lost,
            "duplicated": integrity.duplicated,
            "visibility": _visibility(overview, platforms),
        }

    async def _overview_with(self, collected: int) -> Body:
        """The overview once the last answer is in it."""

        async def look() -> Body | None:
            overview: Body = await self.api.get(f"/brands/{self.seeded.brand_id}/overview", days=1)
            return overview if overview["collected_count"] >= collected else None

        overview: Body = await self._until("the overview did not show every answer", 60, look)
        return overview


def _settled(batch: Body) -> int:
    return sum(int(batch[f"{name}_count"]) for name in ("completed", "failed", "skipped", "expired"))


def _click_line(desk: str, answer: Body) -> str:
    return (
        f"[bold green]collect now[/] on {desk}: {answer['affected_task_count']} tasks, "
        f"{answer['interrupt_requested_count']} asked to give way, {answer['aborted_queued_count']} taken back, "
        f"generation {answer['interrupt_generation']}"
    )


def _request_line(request: Body) -> str:
    return (
        f"[bold green]request {request['status']}[/]: {request['completed_task_count']} of "
        f"{request['requested_task_count']} tasks collected"
    )


def _visibility(overview: Body, platforms: list[Body]) -> Body:
    return {
        "mention_rate": overview["mention_rate"],
        "mentioned": overview["mentioned_count"],
        "collected": overview["collected_count"],
        "expected": overview["expected_count"],
        "platforms": {row["platform"]: (row["visibility"] or {}).get("mention_rate") for row in platforms},
    }
