"""Temporal with Priority alone: a task queue a desk whose worker has two slots, the click at the highest priority.

On a server of its own, with one partition a task queue: with several, each keeps its own order, and an urgent task may
wait in one of them while the worker is served low ones from another (seen: four task lengths instead of half of one).
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from importlib.metadata import version
from typing import Any, Final

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import Priority
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from bench.figures import summary
from bench.peers.clicks import SLOTS, Options, Slots, measure_clicks
from devstack.temporal import binary

SCHEDULED, CLICKED = "bench_scheduled", "bench_clicked"
# Of five; the smaller goes first.
URGENT, LOW = Priority(priority_key=1), Priority(priority_key=5)
LONG: Final = timedelta(minutes=30)
SERVER: Final = [
    word
    for setting in ("enableFairness=true", "numTaskqueueReadPartitions=1", "numTaskqueueWritePartitions=1")
    for word in ("--dynamic-config-value", f"matching.{setting}")
]


@workflow.defn(name="BenchTask")
class BenchTask:
    """One task: one activity, at the workflow's priority."""

    @workflow.run
    async def run(self, name: str, seconds: float) -> None:
        """Run it."""
        await workflow.execute_activity(name, seconds, start_to_close_timeout=LONG)


class _Desk:
    """A task queue and its worker."""

    def __init__(self, client: Client, run: str, number: int) -> None:
        self.queue = f"{run}-{number}"
        self._client = client
        self._slots = Slots()
        self._started = 0

    async def busy(self) -> None:
        await self._slots.busy()

    async def click(self) -> float:
        await self._start(CLICKED, 0.0, URGENT)
        return await self._slots.started()

    async def fill(self, options: Options) -> None:
        for _ in range(options.backlog):
            await self._start(SCHEDULED, options.task_seconds, LOW)

    async def _start(self, name: str, seconds: float, priority: Priority) -> None:
        self._started += 1
        await self._client.start_workflow(
            BenchTask.run,
            args=[name, seconds],
            id=f"{self.queue}-{self._started}",
            task_queue=self.queue,
            priority=priority,
        )

    @activity.defn(name=SCHEDULED)
    async def scheduled(self, seconds: float) -> None:
        """A scheduled task; nothing interrupts it."""
        await self._slots.work(seconds)

    @activity.defn(name=CLICKED)
    async def clicked(self, seconds: float) -> None:
        """The clicked task."""
        await self._slots.begin_clicked()


async def measure(options: Options) -> dict[str, Any]:
    """Click to started in ms, with how it was configured."""
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(binary()), dev_server_log_level="error", dev_server_extra_args=SERVER
    ) as server:
        desks = [_Desk(server.client, "bench-preempt", number) for number in range(options.desks)]
        async with AsyncExitStack() as workers:
            for desk in desks:
                await workers.enter_async_context(_at_work(server.client, desk, options))
            figures = await measure_clicks(desks, options)
    return {
        "name": "temporal",
        "version": version("temporalio"),
        "configured": f"an activity worker with {SLOTS} slots a desk, the clicked task at priority key 1, others at 5;"
        " one partition a task queue, so that priorities are strict",
        "interrupts": False,
        "click_to_started_ms": summary(figures),
    }


@asynccontextmanager
async def _at_work(client: Client, desk: _Desk, options: Options) -> AsyncIterator[None]:
    worker = Worker(
        client,
        task_queue=desk.queue,
        workflows=[BenchTask],
        activities=[desk.scheduled, desk.clicked],
        max_concurrent_activities=SLOTS,
        disable_eager_activity_execution=True,
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    async with worker:
        await desk.fill(options)
        yield
