"""Composition root of the worker process: workflows, their effects, and the resident loops."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from activities.batches import BatchActivities, PlanActivities
from activities.coordinator import Coordinator
from activities.ingest import IngestShard
from activities.outbox_pump import OutboxPump
from activities.presence import PresenceSweeper
from activities.projections import ProjectionRebuilder
from activities.reconcile import ReconcileActivities
from activities.requests import RequestActivities
from activities.resident import Loop, ResidentActivities
from activities.signal_pump import SignalPump
from activities.tuning import TuningActivities
from broker.connection import BrokerConnection
from broker.consumer import IngestConsumer
from broker.dead_letters import dead_letter
from broker.publisher import Publisher
from domain.messages import (
    PROCESS_QUEUE,
    RECONCILE_SCHEDULE_ID,
    RESIDENT_QUEUE,
    SCAN_SCHEDULE_ID,
    TUNE_SCHEDULE_ID,
    ResidentStart,
    resident_workflow_id,
)
from settings import Settings
from store.database import Pool, open_pool
from store.gauges import read_gauges
from store.listen import Listener
from store.raw_answers import RawAnswers
from store.settings import read_dispatch_settings
from telemetry import metrics
from telemetry.effects import count, count_each
from telemetry.readings import Readings
from telemetry.server import serve_metrics
from workflows.collect_now import CollectNow
from workflows.reconcile import Reconcile
from workflows.resident import Resident
from workflows.scan_plans import ScanPlans
from workflows.scheduled_batch import ScheduledBatch
from workflows.tune_timeouts import TuneTimeouts

log = logging.getLogger(__name__)

# Local activities of the process queue run in a click's path; residents must not starve them of slots.
PROCESS_SLOTS = 100
# How soon a raised number of coordinators is noticed.
KEEP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Resources:
    """What the activities are made of; opened once a process."""

    settings: Settings
    pool: Pool
    listener: Listener
    temporal: Client
    broker: BrokerConnection
    publisher: Publisher
    raw_answers: RawAnswers


@asynccontextmanager
async def open_resources(settings: Settings) -> AsyncIterator[Resources]:
    """Connect to every part; closes in reverse order."""
    async with AsyncExitStack() as stack:
        pool = await open_pool(settings.database_url, size=settings.database_pool_size, name="giveway-worker")
        stack.push_async_callback(pool.close)
        listener = await stack.enter_async_context(Listener(settings.database_url))
        temporal = await connect_temporal(settings)
        # Two connections: under a memory alarm the broker blocks a whole connection that publishes, consumers too.
        broker = await stack.enter_async_context(BrokerConnection(settings.amqp_url, name="giveway-ingest"))
        outgoing = await stack.enter_async_context(BrokerConnection(settings.amqp_url, name="giveway-outbox"))
        publisher = Publisher(outgoing, shards=settings.ingest_shards, prefix=settings.amqp_prefix)
        raw_answers = RawAnswers(settings.raw_store_url)
        yield Resources(settings, pool, listener, temporal, broker, publisher, raw_answers)


async def connect_temporal(settings: Settings) -> Client:
    """A client with the pydantic converter, as everywhere."""
    return await Client.connect(
        settings.temporal_address, namespace=settings.temporal_namespace, data_converter=pydantic_data_converter
    )


def resident_loops(resources: Resources) -> dict[str, Loop]:
    """The loop of each role."""
    pool, listener = resources.pool, resources.listener
    ingest = IngestShard(
        pool, partial(_ingest_consumer, resources), resources.raw_answers, partial(dead_letter, resources.publisher)
    )
    count_refusals = partial(count_each, metrics.dispatch_refusals)
    return {
        "coordinator": _sharded(partial(Coordinator, pool, listener, count_refusals=count_refusals)),
        "outbox-pump": _single(OutboxPump(pool, listener, resources.publisher).run),
        "signal-pump": _single(SignalPump(pool, listener, resources.temporal).run),
        "presence": _single(PresenceSweeper(pool).run),
        "projections": _single(ProjectionRebuilder(pool, listener).run),
        "ingest": ingest.run,
    }


def _ingest_consumer(resources: Resources, shard: int) -> IngestConsumer:
    settings = resources.settings
    return IngestConsumer(resources.broker, shard, shards=settings.ingest_shards, prefix=settings.amqp_prefix)


def _single(run: Callable[[str, int], Coroutine[Any, Any, None]]) -> Loop:
    """A role with one shard."""

    async def loop(name: str, epoch: int, _shard: int) -> None:
        await run(name, epoch)

    return loop


def _sharded(coordinator: Callable[[int], Coordinator]) -> Loop:
    """A coordinator of its own for each epoch of each shard: what it remembers is that epoch's."""

    async def loop(name: str, epoch: int, shard: int) -> None:
        await coordinator(shard).run(name, epoch)

    return loop


def resident_starts(settings: Settings, coordinators: int) -> list[ResidentStart]:
    """One resident a role, one a shard of ingest and of dispatch."""
    single = ("outbox-pump", "signal-pump", "presence", "projections")
    ingest = [ResidentStart(role="ingest", shard=shard) for shard in range(settings.ingest_shards)]
    dispatch = [ResidentStart(role="coordinator", shard=shard) for shard in range(coordinators)]
    return [*dispatch, *(ResidentStart(role=role) for role in single), *ingest]


async def _wanted_residents(resources: Resources) -> list[ResidentStart]:
    """Those that should run by the settings of this moment."""
    async with resources.pool.acquire() as connection:
        settings = await read_dispatch_settings(connection)
    return resident_starts(resources.settings, settings.coordinator_shards)


def _count_fixes(kind: str, rows: int) -> None:
    count(metrics.reconcile_fixes, rows, kind)


def build_workers(resources: Resources) -> list[Worker]:
    """The worker of the process queue and the worker of the residents."""
    requests, batches = RequestActivities(resources.pool), BatchActivities(resources.pool)
    plans = PlanActivities(resources.pool, resources.temporal)
    reconcile = ReconcileActivities(
        resources.pool, resources.temporal, partial(_wanted_residents, resources), _count_fixes
    )
    residents = ResidentActivities(resources.pool, resident_loops(resources))
    process = Worker(
        resources.temporal,
        task_queue=PROCESS_QUEUE,
        workflows=[CollectNow, ScheduledBatch, ScanPlans, Resident, Reconcile, TuneTimeouts],
        activities=[
            requests.accept_request,
            requests.find_accepted,
            requests.read_request,
            requests.set_request_hint,
            requests.release_client,
            requests.withdraw_interrupts,
            requests.force_release,
            requests.expire_request,
            requests.end_request,
            requests.cancel_request,
            batches.materialise,
            batches.read_batch,
            batches.pause_batch,
            batches.resume_batch,
            batches.expire_batch,
            batches.cancel_batch,
            batches.rebalance_batch,
            batches.finish_batch,
            plans.scan_plans,
            reconcile.reconcile_database,
            reconcile.reconcile_workflows,
            TuningActivities(resources.pool).tune_timeouts,
        ],
        max_concurrent_activities=PROCESS_SLOTS,
        max_concurrent_local_activities=PROCESS_SLOTS,
        graceful_shutdown_timeout=timedelta(seconds=5),
    )
    resident = Worker(
        resources.temporal,
        task_queue=RESIDENT_QUEUE,
        activities=[residents.run_resident],
        max_concurrent_activities=64,
        # 5 s without a heartbeat move a resident: the SDK must not hold them back longer.
        max_heartbeat_throttle_interval=timedelta(seconds=1.5),
        graceful_shutdown_timeout=timedelta(seconds=1),
    )
    return [process, resident]


async def ensure_started(resources: Resources) -> None:
    """Residents and the schedules exist, whoever started them first."""
    await _start_residents(resources, await _wanted_residents(resources))
    await _ensure_schedules(resources.temporal)


async def _start_residents(resources: Resources, starts: Iterable[ResidentStart]) -> None:
    for start in starts:
        await resources.temporal.start_workflow(
            "Resident",
            start,
            id=resident_workflow_id(start.role, start.shard),
            task_queue=PROCESS_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            static_summary=f"resident {start.role}/{start.shard}",
        )


async def keep_residents(resources: Resources) -> None:
    """Start the coordinators that a raised setting asks for, until cancelled; those beyond a lowered one own nobody."""
    started: list[ResidentStart] = []
    while True:
        try:
            wanted = await _wanted_residents(resources)
            await _start_residents(resources, [start for start in wanted if start not in started])
            started = wanted
            await keep_schedules(resources.temporal)
        except (RPCError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            log.warning("residents were not looked after: %s", error)
        await asyncio.sleep(KEEP_SECONDS)


async def keep_schedules(client: Client) -> None:
    """After the loss of Temporal's database: schedules anew; the first reconcile, at once, brings back the rest."""
    try:
        await client.get_schedule_handle(RECONCILE_SCHEDULE_ID).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        await _ensure_schedules(client)


async def _ensure_schedules(client: Client) -> None:
    await _ensure_schedule(client, SCAN_SCHEDULE_ID, "ScanPlans", every=timedelta(minutes=1))
    await _ensure_schedule(client, TUNE_SCHEDULE_ID, "TuneTimeouts", every=timedelta(weeks=1))
    if not await _ensure_schedule(client, RECONCILE_SCHEDULE_ID, "Reconcile", every=timedelta(minutes=5)):
        # Whatever went wrong while no worker ran is mended now.
        await client.get_schedule_handle(RECONCILE_SCHEDULE_ID).trigger(overlap=ScheduleOverlapPolicy.SKIP)


async def _ensure_schedule(client: Client, schedule_id: str, workflow: str, *, every: timedelta) -> bool:
    """Whether it had to be created; its first run then starts at once."""
    schedule = Schedule(
        action=ScheduleActionStartWorkflow(workflow, id=schedule_id, task_queue=PROCESS_QUEUE),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=every)]),
        # A minute for what comes every minute (§1.6); what comes once a week must outlast an outage of a day.
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=max(timedelta(minutes=1), every / 7)),
    )
    try:
        await client.create_schedule(schedule_id, schedule, trigger_immediately=True)
    except ScheduleAlreadyRunningError:
        return False
    return True


def _announce(path: str) -> None:
    """Tell the supervisor, if there is one, that this process serves."""
    if path:
        Path(path).write_text("ready\n", encoding="utf-8")


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def run_worker(settings: Settings, stop: asyncio.Event) -> None:
    """Serve both queues until `stop`; running activities are handed over to the next worker."""
    async with open_resources(settings) as resources, AsyncExitStack() as running:
        readings = Readings(partial(read_gauges, resources.pool))
        await running.enter_async_context(serve_metrics(settings.metrics_host, settings.worker_metrics_port, readings))
        for built in build_workers(resources):
            await running.enter_async_context(built)
        await ensure_started(resources)
        running.push_async_callback(_end, asyncio.create_task(keep_residents(resources), name="residents"))
        _announce(settings.giveway_ready_file)
        log.info("worker ready on %s and %s", PROCESS_QUEUE, RESIDENT_QUEUE)
        await stop.wait()
