"""A thousand desktops in one process: each the reference desktop's own connection, with little or all behind it."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self
from uuid import UUID

from desktop.config import DesktopConfig
from desktop.connection import Connection
from desktop.driver import Driver
from desktop.events import DesktopEvent, EventKind, Moment, Reporter
from domain.ids import new_uuid, shard_key
from domain.protocol import AnyServerFrame, Heartbeat, HeldAttempt, Hello, Snapshot, Sync, TaskAvailable
from tests.support.world import BUSINESS_DATE, Desktop, World, digest

REGISTER = """
insert into desktop_clients (id, tenant_id, workspace_id, user_id, name, token_hash)
select id, $1, $2, 1, 'desktop ' || id, hash from unnest($3::uuid[], $4::bytea[]) as given(id, hash)
"""

# One business task with its execution task for each client named, waiting there without a lease.
QUEUE = """
with given as (
    select client, n from unnest($5::uuid[]) with ordinality as given(client, n)
), made as (
    insert into questions (tenant_id, brand_id, text)
    select $1, $3, format('question %s for %s', gen_random_uuid(), client) from given returning id, text
), versions as (
    insert into question_versions (tenant_id, question_id, text, text_hash) select $1, id, text, md5(text) from made
    returning id, question_id
), tasks as (
    insert into monitoring_collect_tasks (tenant_id, workspace_id, brand_id, question_id, question_version_id,
        ai_platform_id, collector_type, run_mode, business_date, trigger_source, ingest_shard_key, active_task_id)
    select $1, $2, $3, question_id, id, 'qwen', 'desktop', 'api_standard', $4, 'automatic', $6, gen_random_uuid()
    from versions
    returning *
), numbered as (
    select tasks.*, row_number() over (order by id) as n from tasks
)
insert into desktop_tasks (id, tenant_id, monitor_task_id, target_client_id, ai_platform_id, priority, lane, source,
    scheduler_group_key, enqueued_at)
select active_task_id, tenant_id, id, client, ai_platform_id, 100, 'normal', 'daily_schedule', 'qid:' || question_id,
    now()
from numbered join given using (n)
returning id, target_client_id
"""


async def register(world: World, count: int) -> list[Desktop]:
    """Clients in one statement, none of them connected."""
    made = [Desktop(new_uuid(), f"device-token-{number}-{new_uuid()}") for number in range(count)]
    await world.pool.execute(
        REGISTER, world.tenant_id, world.workspace_id, [one.id for one in made], [digest(one.token) for one in made]
    )
    return made


async def queue_tasks(world: World, clients: Sequence[Desktop]) -> dict[UUID, UUID]:
    """A task for each, in one statement; execution task ids and their clients."""
    rows = await world.pool.fetch(
        QUEUE, world.tenant_id, world.workspace_id, world.brand_id, BUSINESS_DATE, [one.id for one in clients],
        shard_key(world.tenant_id, world.brand_id, BUSINESS_DATE),
    )  # fmt: skip
    return {row["id"]: row["target_client_id"] for row in rows}


class LeanLink:
    """A desktop reduced to what its connection needs: it holds what it is given and runs nothing."""

    def __init__(self) -> None:
        self.held: dict[str, HeldAttempt] = {}
        # Attempts that the hub called over.
        self.over: list[str] = []

    def hello(self) -> Hello:
        return Hello(id=str(new_uuid()), max_concurrent=1, held=list(self.held.values()))

    def sync(self) -> Sync:
        return Sync(id=str(new_uuid()), held=list(self.held.values()))

    def heartbeat(self) -> Heartbeat:
        return Heartbeat(id=str(new_uuid()), queued=list(self.held.values()))

    def heartbeat_taken(self, heartbeat: Heartbeat) -> None:
        """Nothing runs here whose lease would be counted."""

    def replied(self, ref: str | None, code: str | None) -> None:
        """It sends nothing whose reply matters."""

    def idle(self) -> bool:
        return False

    def received(self, frame: AnyServerFrame, at: Moment) -> None:
        if isinstance(frame, TaskAvailable):
            self._take(frame)
        elif isinstance(frame, Snapshot):
            for task in frame.available:
                self._take(task)
            for verdict in frame.held:
                if not verdict.valid and self.held.pop(verdict.task_id, None) is not None:
                    self.over.append(verdict.attempt_id)

    def _take(self, frame: TaskAvailable) -> None:
        self.held[frame.task_id] = HeldAttempt(
            task_id=frame.task_id, attempt_id=frame.attempt_id, state="queued", phase=None
        )


class Herd:
    """What many desktops tell: how often each connected, and how long each waited when. An observer."""

    def __init__(self) -> None:
        self.connected: Counter[str] = Counter()
        self.waits: dict[str, list[float]] = {}
        self.refused: list[str] = []

    def __call__(self, event: DesktopEvent) -> None:
        if event.kind is EventKind.CONNECTED:
            self.connected[event.client_id] += 1
        elif event.kind is EventKind.RECONNECTING:
            self.waits.setdefault(event.client_id, []).append((event.interval_ms or 0.0) / 1000)
        elif event.kind is EventKind.REFUSED:
            self.refused.append(event.client_id)

    def back(self, times: int) -> int:
        """Desktops that have connected so often."""
        return sum(count >= times for count in self.connected.values())


class LeanFleet:
    """Connections of `LeanLink` desktops; entered they connect, left they are gone."""

    def __init__(self, clients: Sequence[Desktop], ws_url: str, driver: Driver, herd: Herd, rng: Random) -> None:
        self.links = {client.id: LeanLink() for client in clients}
        self._connections = [
            Connection(
                DesktopConfig(
                    client_id=str(client.id),
                    token=client.token,
                    ws_url=ws_url,
                    api_url="",
                    state_dir=Path(),
                    driver=driver,
                ),
                self.links[client.id],
                Reporter(str(client.id), herd),
                Random(rng.random()),
            )
            for client in clients
        ]
        self._running: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._running = [asyncio.create_task(connection.run()) for connection in self._connections]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections:
            connection.close()
        await asyncio.gather(*self._running, return_exceptions=True)
