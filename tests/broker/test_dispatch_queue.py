"""A hub instance hears of its own clients only, and learns that it was deaf for a while."""

import asyncio
from uuid import UUID, uuid4

import msgspec

from broker.connection import BrokerConnection
from broker.dispatch_queue import DispatchQueue, publish_control
from broker.publisher import Publisher
from domain.transport import DISPATCH_EXCHANGE, ClientClosed, DispatchMessage, TaskHint
from tests.support.broker import until
from tests.support.tcp_proxy import TcpProxy


async def send_hint(publisher: Publisher, client_id: UUID, lane: str = "high") -> bool:
    body = msgspec.json.encode(TaskHint(task_id=str(uuid4()), client_id=str(client_id)))
    return await publisher.publish(DISPATCH_EXCHANGE, f"monitor.{lane}.{client_id}", body, persistent=False)


async def one(queue: DispatchQueue) -> DispatchMessage | None:
    async with asyncio.timeout(20):
        return await anext(aiter(queue.messages()))


async def test_only_bound_clients_are_heard_in_every_lane(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    mine, other = uuid4(), uuid4()
    async with DispatchQueue(broker, prefix=prefix) as queue:
        await queue.ready.wait()
        await queue.bind(mine)
        assert not await send_hint(publisher, other)
        for lane in ("high", "normal", "retry"):
            assert await send_hint(publisher, mine, lane)
            message = await one(queue)
            assert isinstance(message, TaskHint)
            assert message.client_id == str(mine)
        await queue.unbind(mine)
        assert not await send_hint(publisher, mine)


async def test_a_close_order_reaches_the_hub_that_has_the_client(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    client_id = uuid4()
    async with DispatchQueue(broker, prefix=prefix) as queue:
        await queue.ready.wait()
        await queue.bind(client_id)
        order = ClientClosed(client_id=str(client_id), code=4509, epoch=3)
        await publish_control(publisher, order)
        assert await one(queue) == order


async def test_after_a_loss_every_client_is_bound_again_and_the_reader_is_told(
    publisher: Publisher, proxied: BrokerConnection, proxy: TcpProxy, prefix: str
) -> None:
    clients = [uuid4() for _ in range(50)]
    async with DispatchQueue(proxied, prefix=prefix) as queue:
        await queue.ready.wait()
        for client_id in clients:
            await queue.bind(client_id)
        proxy.cut()
        assert await one(queue) is None
        for client_id in clients:
            assert await send_hint(publisher, client_id)
            message = await one(queue)
            assert isinstance(message, TaskHint)
            assert message.client_id == str(client_id)


async def test_a_client_bound_while_the_broker_is_away_is_bound_at_its_return(
    publisher: Publisher, proxied: BrokerConnection, proxy: TcpProxy, prefix: str
) -> None:
    client_id = uuid4()
    proxy.refusing = True
    async with DispatchQueue(proxied, prefix=prefix) as queue:
        await until(lambda: proxy.accepted > 1)
        await queue.bind(client_id)
        proxy.refusing = False
        assert await one(queue) is None
        assert await send_hint(publisher, client_id)
        assert isinstance(await one(queue), TaskHint)


async def test_an_abandoned_bind_does_not_disturb_the_queue_of_all(
    publisher: Publisher, broker: BrokerConnection, prefix: str
) -> None:
    steady = uuid4()
    async with DispatchQueue(broker, prefix=prefix) as queue:
        await queue.ready.wait()
        await queue.bind(steady)
        hasty = asyncio.create_task(queue.bind(uuid4()))
        await asyncio.sleep(0)
        hasty.cancel()
        await asyncio.gather(hasty, return_exceptions=True)
        assert await send_hint(publisher, steady)
        assert isinstance(await one(queue), TaskHint)
