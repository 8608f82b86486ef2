"""Committed effects reach the broker at least once, in order per client, whatever fails."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from uuid import UUID, uuid4

import pytest

from activities import outbox_pump
from activities.outbox_pump import OutboxPump
from broker.connection import BrokerConnection
from broker.dispatch_queue import DispatchQueue
from broker.publisher import Outcome, Outgoing, Publisher
from domain.errors import FencedOut
from domain.transport import OUTBOX_ID_HEADER, TaskHint
from store import residents
from store.database import Pool
from store.listen import Listener
from store.outbox import OutboxRow, dispatch_event
from tests.activities.pumping import NAME, outcomes, pumping, rows_of, until_outcomes, until_settled, write
from tests.support.broker import SHARDS, until
from tests.support.tcp_proxy import TcpProxy


@pytest.fixture
async def listener(database_url: str) -> AsyncIterator[Listener]:
    async with Listener(database_url) as running:
        await running.ready.wait()
        yield running


@pytest.fixture
async def queue(broker: BrokerConnection, prefix: str) -> AsyncIterator[DispatchQueue]:
    async with DispatchQueue(broker, prefix=prefix) as running:
        await running.ready.wait()
        yield running


def a_hint(client_id: UUID, number: int = 0) -> OutboxRow:
    payload = {"task_id": str(UUID(int=number)), "client_id": str(client_id)}
    return dispatch_event("task_available", f"monitor.high.{client_id}", payload, 1, client_id)


async def heard(queue: DispatchQueue, count: int) -> list[tuple[str, int]]:
    """The next hints: client and number."""
    messages = []
    async with asyncio.timeout(30):
        async for message in queue.messages():
            assert isinstance(message, TaskHint)
            messages.append((message.client_id, UUID(message.task_id).int))
            if len(messages) == count:
                break
    return messages


class Recorder(Publisher):
    """The real publisher; notes what it was given, and fails what the test says as often as it says."""

    def __init__(self, connection: BrokerConnection, name_prefix: str) -> None:
        super().__init__(connection, prefix=name_prefix, shards=SHARDS)
        self.given: list[Outgoing] = []
        self.calls: list[int] = []
        self.failing: dict[int, int] = {}
        # Raised after the broker has confirmed: the caller cannot know.
        self.lost_confirms = 0

    async def publish_many(self, messages: Sequence[Outgoing], *, timeout: float = 5.0) -> list[Outcome]:
        self.given += messages
        self.calls.append(len(messages))
        going = [message for message in messages if not self._fails(message)]
        done = iter(await super().publish_many(going, timeout=timeout))
        if self.lost_confirms:
            self.lost_confirms -= 1
            raise TimeoutError("the confirm was lost")
        return [next(done) if message in going else Outcome.FAILED for message in messages]

    def _fails(self, message: Outgoing) -> bool:
        row_id = int(message.headers[OUTBOX_ID_HEADER])
        left = self.failing.get(row_id, 0)
        self.failing[row_id] = max(0, left - 1)
        return left > 0


@pytest.fixture
async def recorder(broker: BrokerConnection, prefix: str) -> Recorder:
    return Recorder(broker, prefix)


async def test_a_committed_row_is_published_and_one_without_a_hub_is_unroutable(
    pool: Pool, listener: Listener, queue: DispatchQueue, publisher: Publisher
) -> None:
    here, away = uuid4(), uuid4()
    await queue.bind(here)
    async with pumping(pool, OutboxPump(pool, listener, publisher).run):
        await write(pool, a_hint(here, 1), a_hint(away, 2))
        assert await heard(queue, 1) == [(str(here), 1)]
        assert await until_settled(pool) == ["delivered", "unroutable"]


async def test_a_backlog_from_before_the_pump_is_drained_in_order_per_client(
    pool: Pool, listener: Listener, queue: DispatchQueue, publisher: Publisher
) -> None:
    clients = [uuid4() for _ in range(10)]
    for client_id in clients:
        await queue.bind(client_id)
    await write(pool, *(a_hint(clients[number % 10], number) for number in range(500)))
    async with pumping(pool, OutboxPump(pool, listener, publisher).run):
        got = await heard(queue, 500)
        assert set(await until_settled(pool)) == {"delivered"}
    for position, client_id in enumerate(clients):
        numbers = [number for client, number in got if client == str(client_id)]
        assert numbers == list(range(position, 500, 10))


async def test_a_failed_row_holds_back_its_own_client_alone_and_order_is_kept(
    pool: Pool, listener: Listener, queue: DispatchQueue, recorder: Recorder
) -> None:
    troubled, fine = uuid4(), uuid4()
    await queue.bind(troubled)
    await queue.bind(fine)
    await write(pool, a_hint(troubled, 1), a_hint(troubled, 2), a_hint(fine, 3))
    recorder.failing = {1: 2}
    async with pumping(pool, OutboxPump(pool, listener, recorder).run):
        assert await heard(queue, 1) == [(str(fine), 3)]
        # A row that comes while the first is put off does not overtake it.
        await write(pool, a_hint(troubled, 4))
        assert [number for _client, number in await heard(queue, 3)] == [1, 2, 4]
        await until_settled(pool)
    assert (await rows_of(pool))[0]["tries"] >= 1


async def test_a_row_that_can_never_be_published_blocks_nobody(
    pool: Pool, listener: Listener, queue: DispatchQueue, publisher: Publisher
) -> None:
    client_id = uuid4()
    await queue.bind(client_id)
    endless = OutboxRow("amqp", "task_available", "k" * 300, {"type": "task_available"}, 1, client_id)
    await write(pool, endless, a_hint(client_id, 2))
    async with pumping(pool, OutboxPump(pool, listener, publisher).run):
        assert await heard(queue, 1) == [(str(client_id), 2)]
        assert await until_settled(pool) == ["refused", "delivered"]


async def test_a_row_whose_confirm_was_lost_is_published_again(
    pool: Pool, listener: Listener, queue: DispatchQueue, recorder: Recorder
) -> None:
    client_id = uuid4()
    await queue.bind(client_id)
    recorder.lost_confirms = 1
    async with pumping(pool, OutboxPump(pool, listener, recorder).run):
        await write(pool, a_hint(client_id, 1))
        assert await heard(queue, 2) == [(str(client_id), 1)] * 2
        assert await until_settled(pool) == ["delivered"]
    first, second = recorder.given
    assert first.message_id is None
    assert second.headers == first.headers


async def test_a_pump_whose_epoch_is_over_marks_nothing_and_stops(
    pool: Pool, listener: Listener, queue: DispatchQueue, publisher: Publisher
) -> None:
    client_id = uuid4()
    await queue.bind(client_id)
    stale = await residents.take(pool, NAME, "frozen")
    await residents.take(pool, NAME, "successor")
    await write(pool, a_hint(client_id, 1))
    with pytest.raises(FencedOut):
        await OutboxPump(pool, listener, publisher).run(NAME, stale)
    assert await outcomes(pool) == [None]
    async with pumping(pool, OutboxPump(pool, listener, publisher).run):
        assert await until_settled(pool) == ["delivered"]
    assert len(await heard(queue, 2)) == 2


async def test_a_lower_id_that_commits_late_is_still_published(
    pool: Pool, listener: Listener, queue: DispatchQueue, publisher: Publisher
) -> None:
    first, second = uuid4(), uuid4()
    await queue.bind(first)
    await queue.bind(second)
    async with pumping(pool, OutboxPump(pool, listener, publisher).run):
        async with pool.acquire() as slow, slow.transaction():
            await slow.execute(
                "insert into outbox (channel, kind, key, payload, client_id)"
                " values ('amqp', 'task_available', $1, $2, $3)",
                a_hint(first).key, a_hint(first, 1).payload, first,
            )  # fmt: skip
            await write(pool, a_hint(second, 2))
            assert await heard(queue, 1) == [(str(second), 2)]
        assert await heard(queue, 1) == [(str(first), 1)]


async def test_a_broker_that_is_away_puts_no_row_off_and_all_go_at_its_return(
    pool: Pool,
    listener: Listener,
    queue: DispatchQueue,
    proxied: BrokerConnection,
    proxy: TcpProxy,
    prefix: str,
) -> None:
    client_id = uuid4()
    await queue.bind(client_id)
    proxy.refusing = True
    async with pumping(pool, OutboxPump(pool, listener, Publisher(proxied, prefix=prefix, shards=SHARDS)).run):
        await write(pool, *(a_hint(client_id, number) for number in range(20)))
        await until(lambda: proxy.accepted >= 3)
        assert {row["tries"] for row in await rows_of(pool)} == {0}
        proxy.refusing = False
        assert [number for _client, number in await heard(queue, 20)] == list(range(20))
        assert set(await until_settled(pool)) == {"delivered"}


async def test_a_broker_that_hangs_is_tried_once_a_round_however_many_rows_a_client_has(
    pool: Pool, listener: Listener, queue: DispatchQueue, recorder: Recorder
) -> None:
    client_id = uuid4()
    await queue.bind(client_id)
    recorder.failing = dict.fromkeys(range(1, 6), 1)
    await write(pool, *(a_hint(client_id, number) for number in range(5)))
    async with pumping(pool, OutboxPump(pool, listener, recorder).run):
        await until_settled(pool)
    assert recorder.calls == [1] * 10


async def test_a_round_that_lasts_too_long_writes_down_what_it_has_and_puts_nothing_off(
    pool: Pool, listener: Listener, queue: DispatchQueue, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    client_id = uuid4()
    await queue.bind(client_id)
    monkeypatch.setattr(outbox_pump, "ROUND_SECONDS", 0.0)
    await write(pool, *(a_hint(client_id, number) for number in range(5)))
    async with pumping(pool, OutboxPump(pool, listener, recorder).run):
        assert set(await until_settled(pool)) == {"delivered"}
    assert [number for _client, number in await heard(queue, 5)] == list(range(5))
    rows = await rows_of(pool)
    assert {row["tries"] for row in rows} == {0}
    # One round, and so one transaction, for each.
    assert len({row["delivered_at"] for row in rows}) == 5


async def test_every_connection_to_the_database_terminated_stops_the_pump_for_a_moment_only(
    pool: Pool, database_url: str, listener: Listener, queue: DispatchQueue, publisher: Publisher
) -> None:
    client_id = uuid4()
    await queue.bind(client_id)
    async with pumping(pool, OutboxPump(pool, listener, publisher).run) as running:
        await pool.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        await write(pool, a_hint(client_id, 1))
        assert await heard(queue, 1) == [(str(client_id), 1)]
        assert await until_outcomes(pool, lambda found: found == ["delivered"])
        assert not running.done()
