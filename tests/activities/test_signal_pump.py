"""Workflows hear of effects once they are committed: newest first, no client forgotten, at most one a second."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.signal_pump import RPC_TIMEOUT, SignalPump, coalesce, signal_argument
from domain.errors import FencedOut
from domain.messages import ClientLost, InterruptSettled, SignalName, TasksTerminal
from store import residents
from store.database import Pool
from store.listen import Listener
from store.outbox import OutboxRow, signal
from store.outbox_pump import PendingRow
from tests.activities.pumping import NAME, outcomes, pumping, rows_of, until_outcomes, until_settled, write
from tests.conftest import Servers

QUEUE = f"signal-pump-tests-{uuid4().hex[:8]}"


@workflow.defn
class Recorder:
    """Keeps every signal it hears; ends when told."""

    def __init__(self) -> None:
        self._heard: list[dict[str, Any]] = []
        self._done = False

    @workflow.run
    async def run(self) -> int:
        await workflow.wait_condition(lambda: self._done)
        return len(self._heard)

    @workflow.signal(name="tasks_terminal")
    def tasks_terminal(self, event: TasksTerminal) -> None:
        self._heard.append({"kind": "tasks_terminal", **event.model_dump(mode="json")})

    @workflow.signal(name="interrupt_settled")
    def interrupt_settled(self, event: InterruptSettled) -> None:
        self._heard.append({"kind": "interrupt_settled", **event.model_dump(mode="json")})

    @workflow.signal(name="client_lost")
    def client_lost(self, event: ClientLost) -> None:
        self._heard.append({"kind": "client_lost", **event.model_dump(mode="json")})

    @workflow.signal(name="a_kind_of_tomorrow")
    def of_tomorrow(self, event: dict[str, Any]) -> None:
        self._heard.append({"kind": "a_kind_of_tomorrow", **event})

    @workflow.signal
    def end(self) -> None:
        self._done = True

    @workflow.query
    def heard(self) -> list[dict[str, Any]]:
        return self._heard


@pytest.fixture
async def temporal(servers: Servers) -> Client:
    return await Client.connect(
        servers.temporal_address, namespace=servers.temporal_namespace, data_converter=pydantic_data_converter
    )


@pytest.fixture
async def target(temporal: Client) -> AsyncIterator[WorkflowHandle[Recorder, int]]:
    """A running workflow."""
    async with Worker(temporal, task_queue=QUEUE, workflows=[Recorder], workflow_runner=UnsandboxedWorkflowRunner()):
        handle = await temporal.start_workflow(Recorder.run, id=f"recorder/{uuid4()}", task_queue=QUEUE)
        yield handle
        with suppress(RPCError):
            await handle.terminate()


@pytest.fixture
async def listener(database_url: str) -> AsyncIterator[Listener]:
    async with Listener(database_url) as running:
        await running.ready.wait()
        yield running


def terminal(workflow_id: str, completed: int) -> OutboxRow:
    payload = {"completed": completed, "failed": 0, "remaining": 100 - completed}
    return signal(workflow_id, SignalName.TASKS_TERMINAL, payload, 1)


def settled(workflow_id: str, client_id: UUID, generation: int, count: int) -> OutboxRow:
    payload = {"client_id": str(client_id), "generation": generation, "settled": count, "outstanding": 0}
    return signal(workflow_id, SignalName.INTERRUPT_SETTLED, payload, 1)


async def heard(target: WorkflowHandle[Recorder, int], count: int) -> list[dict[str, Any]]:
    """The signals the workflow has, at least so many."""
    async with asyncio.timeout(30):
        while len(found := await target.query(Recorder.heard)) < count:
            await asyncio.sleep(0.05)
        return found


async def test_a_signal_arrives_as_its_model_with_the_outbox_id(
    pool: Pool, listener: Listener, temporal: Client, target: WorkflowHandle[Recorder, int]
) -> None:
    async with pumping(pool, SignalPump(pool, listener, temporal).run):
        await write(pool, terminal(target.id, 7))
        assert await until_settled(pool) == ["delivered"]
    (row,) = await rows_of(pool)
    assert await heard(target, 1) == [
        {"kind": "tasks_terminal", "outbox_id": row["id"], "completed": 7, "failed": 0, "remaining": 93, "returned": 0}
    ]


async def test_of_many_totals_the_newest_is_sent_and_the_rest_coalesced(
    pool: Pool, listener: Listener, temporal: Client, target: WorkflowHandle[Recorder, int]
) -> None:
    await write(pool, *(terminal(target.id, number) for number in range(1, 51)))
    async with pumping(pool, SignalPump(pool, listener, temporal).run):
        assert await until_settled(pool) == ["coalesced"] * 49 + ["delivered"]
    assert [event["completed"] for event in await heard(target, 1)] == [50]


async def test_a_stream_of_totals_sends_the_first_at_once_and_the_last_a_second_later(
    pool: Pool, listener: Listener, temporal: Client, target: WorkflowHandle[Recorder, int]
) -> None:
    async with pumping(pool, SignalPump(pool, listener, temporal).run):
        await write(pool, terminal(target.id, 1))
        await until_settled(pool)
        for number in range(2, 12):
            await write(pool, terminal(target.id, number))
        ends = await until_settled(pool)
    first, *_middle, last = await rows_of(pool)
    assert (ends[0], ends[-1]) == ("delivered", "delivered")
    assert ends.count("delivered") <= 3
    assert (last["delivered_at"] - first["delivered_at"]).total_seconds() > 0.9
    assert (await heard(target, 2))[-1]["completed"] == 11
    assert last["tries"] == 0


async def test_no_clients_interrupt_is_swallowed_by_another_clients(
    pool: Pool, listener: Listener, temporal: Client, target: WorkflowHandle[Recorder, int]
) -> None:
    first, second = uuid4(), uuid4()
    await write(
        pool,
        settled(target.id, first, 4, 1),
        settled(target.id, first, 4, 2),
        settled(target.id, second, 4, 1),
        settled(target.id, first, 5, 1),
    )
    async with pumping(pool, SignalPump(pool, listener, temporal).run):
        assert await until_settled(pool) == ["coalesced", "delivered", "delivered", "delivered"]
    events = [(event["client_id"], event["generation"], event["settled"]) for event in await heard(target, 3)]
    assert events == [(str(first), 4, 2), (str(second), 4, 1), (str(first), 5, 1)]


async def test_a_workflow_that_never_was_or_has_ended_is_gone(
    pool: Pool, listener: Listener, temporal: Client, target: WorkflowHandle[Recorder, int]
) -> None:
    await target.signal(Recorder.end)
    await target.result()
    await write(pool, terminal(target.id, 1), terminal(f"collect-now/{uuid4()}", 1))
    async with pumping(pool, SignalPump(pool, listener, temporal).run):
        assert await until_settled(pool) == ["gone", "gone"]


async def test_a_row_that_is_no_valid_signal_is_refused_and_blocks_nobody(
    pool: Pool, listener: Listener, temporal: Client, target: WorkflowHandle[Recorder, int]
) -> None:
    broken = signal(target.id, SignalName.INTERRUPT_SETTLED, {"client_id": "who?"}, 1)
    await write(pool, broken, terminal(target.id, 3))
    async with pumping(pool, SignalPump(pool, listener, temporal).run):
        assert await until_settled(pool) == ["refused", "delivered"]


async def test_a_kind_that_this_version_does_not_know_goes_as_it_is(
    pool: Pool, listener: Listener, temporal: Client, target: WorkflowHandle[Recorder, int]
) -> None:
    await write(pool, signal(target.id, "a_kind_of_tomorrow", {"x": 1}, 1))
    async with pumping(pool, SignalPump(pool, listener, temporal).run):
        await until_settled(pool)
    (event,) = await heard(target, 1)
    assert event["x"] == 1
    assert event["outbox_id"] > 0


class Handle:
    """A workflow handle whose server is not there."""

    def __init__(self, owner: "Flaky", workflow_id: str) -> None:
        self._owner = owner
        self._id = workflow_id

    async def signal(self, name: str, argument: object, *, rpc_timeout: object) -> None:
        assert rpc_timeout == RPC_TIMEOUT
        self._owner.tries.append(self._id)
        if self._owner.fails(self._id):
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        await self._owner.real.get_workflow_handle(self._id).signal(name, argument)


class Flaky:
    """The real client behind a fault: the server is away for some workflows, or for all."""

    def __init__(self, real: Client) -> None:
        self.real = real
        self.away_for: set[str] | None = set()
        self.tries: list[str] = []

    def fails(self, workflow_id: str) -> bool:
        return self.away_for is None or workflow_id in self.away_for

    def get_workflow_handle(self, workflow_id: str) -> Handle:
        return Handle(self, workflow_id)


async def test_temporal_away_loses_no_signal_and_puts_none_off(
    pool: Pool, listener: Listener, temporal: Client, target: WorkflowHandle[Recorder, int]
) -> None:
    flaky = Flaky(temporal)
    flaky.away_for = None
    async with pumping(pool, SignalPump(pool, listener, flaky).run):  # type: ignore[arg-type]
        await write(pool, terminal(target.id, 1))
        async with asyncio.timeout(20):
            while len(flaky.tries) < 2:
                await asyncio.sleep(0.01)
        assert [(row["outcome"], row["tries"]) for row in await rows_of(pool)] == [(None, 0)]
        flaky.away_for = set()
        assert await until_settled(pool) == ["delivered"]


async def test_a_signal_that_fails_alone_is_put_off_and_the_others_go(
    pool: Pool, listener: Listener, temporal: Client, target: WorkflowHandle[Recorder, int]
) -> None:
    flaky = Flaky(temporal)
    stuck = f"collect-now/{uuid4()}"
    flaky.away_for = {stuck}
    async with pumping(pool, SignalPump(pool, listener, flaky).run):  # type: ignore[arg-type]
        await write(pool, terminal(stuck, 1), terminal(target.id, 1))
        assert await until_outcomes(pool, lambda found: found == [None, "delivered"])
        flaky.away_for = set()
        assert await until_settled(pool) == ["gone", "delivered"]


async def test_a_pump_whose_epoch_is_over_marks_nothing_and_stops(
    pool: Pool, listener: Listener, temporal: Client, target: WorkflowHandle[Recorder, int]
) -> None:
    stale = await residents.take(pool, NAME, "frozen")
    await residents.take(pool, NAME, "successor")
    await write(pool, terminal(target.id, 1))
    with pytest.raises(FencedOut):
        await SignalPump(pool, listener, temporal).run(NAME, stale)
    assert await outcomes(pool) == [None]


def a_row(row_id: int, kind: str, key: str, **payload: Any) -> PendingRow:
    return PendingRow(row_id, kind, key, payload, 1, None, 0)


def test_groups_keep_the_order_of_their_newest_rows() -> None:
    rows = [
        a_row(1, "progress", "a", settled=1),
        a_row(2, "client_lost", "a", client_id="x", epoch=1),
        a_row(3, "progress", "b", settled=1),
        a_row(4, "progress", "a", settled=2),
        a_row(5, "client_lost", "a", client_id="x", epoch=2),
    ]
    groups = [(group.newest.id, [row.id for row in group.older]) for group in coalesce(rows)]
    assert groups == [(2, []), (3, []), (4, [1]), (5, [])]


def test_a_payload_cannot_bring_an_outbox_id_of_its_own() -> None:
    argument = signal_argument(a_row(9, "progress", "a", settled=1, outbox_id=1))
    assert getattr(argument, "outbox_id", None) == 9
