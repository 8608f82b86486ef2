"""Peers that stop reading, never answer a ping, or end with a RST: the hub is rid of them, and nobody else notices."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import pytest

from domain.protocol import Authenticate, CloseCode, Heartbeat, ServerAck, TaskControl, encode
from tests.faults.hub_rig import HubRig
from tests.support.raw_socket import RawSocket
from tests.support.result_queues import until
from tests.support.world import Desktop

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("hub")]

Act = Callable[[RawSocket, Desktop], Awaitable[None]]
# The flood is twice what the hub may grow by. Of one client it keeps 1 MB, the kernels' buffers take a few more.
LARGE = "x" * 60_000
FLOOD = 400
GROWTH_KILOBYTES = 12_000


async def test_a_client_that_stops_reading_is_closed_as_slow_and_memory_stays_flat(rig: HubRig) -> None:
    client, neighbour = await rig.world.client(online=False), await rig.desk()
    slow = await rig.greeted(client, receive_buffer=4096)
    base = await rig.server.counts()
    for number in range(FLOOD):
        await rig.order(client.id, reason=LARGE)
        if number % 20 == 0:
            # The neighbour's push comes while the other one's queue is stuck.
            await rig.order(neighbour.client.client_id, generation=number + 1)
            assert (await neighbour.next(TaskControl)).interrupt_generation == number + 1
            assert (await rig.server.counts())["kilobytes"] - base["kilobytes"] < GROWTH_KILOBYTES
    await until(lambda: _unheld(rig, client))
    await until(lambda: _online(rig, 1))
    # It reads what the kernel held; the code comes if the close frame still found room.
    assert await slow.closed() in (CloseCode.SLOW_CONSUMER, None)
    await neighbour.send(Heartbeat(id="still here"))
    assert (await neighbour.next(ServerAck)).ref == "still here"


async def _online(rig: HubRig, count: int) -> bool:
    return await rig.online() == count


async def _unheld(rig: HubRig, client: Desktop) -> bool:
    return not await rig.order(client.id, reason=LARGE)


async def test_a_thousand_resets_in_every_state_leave_nothing_behind(rig: HubRig, rng: random.Random) -> None:
    neighbour = await rig.desk()
    clients = [await rig.world.client(online=False) for _ in range(40)]
    acts = [_in_silence, _in_the_handshake, _authenticating, _before_hello, _in_mid_snapshot, _greeted]
    await _resets(rig, clients, acts * 10, rng)  # what is made once: caches, metrics, pools
    await until(lambda: _online(rig, 1))
    base = await rig.server.counts()
    await _resets(rig, clients, rng.choices(acts, weights=(3, 3, 3, 1, 1, 1), k=1000), rng)
    await rig.server.back_to(base)
    await until(lambda: _online(rig, 1))
    await rig.order(neighbour.client.client_id, generation=7)
    assert (await neighbour.next(TaskControl)).interrupt_generation == 7


async def _resets(rig: HubRig, clients: Sequence[Desktop], acts: Sequence[Act], rng: random.Random) -> None:
    """Each act on a socket of its own, forty at a time, then a RST."""
    at_once = asyncio.Semaphore(len(clients))

    async def one(act: Act, client: Desktop) -> None:
        async with at_once:
            peer = await RawSocket.open(rig.server.url)
            try:
                await act(peer, client)
            finally:
                peer.reset()

    await asyncio.gather(*(one(act, rng.choice(clients)) for act in acts))


async def _in_silence(peer: RawSocket, _client: Desktop) -> None:
    """Connected, and that is all."""


async def _in_the_handshake(peer: RawSocket, client: Desktop) -> None:
    request = peer.handshake(client.token)
    await peer.write(request[: len(request) // 2])


async def _authenticating(peer: RawSocket, client: Desktop) -> None:
    await peer.write(peer.handshake())
    await peer.answer()
    await peer.say(encode(Authenticate(id="1", token=client.token)))


async def _before_hello(peer: RawSocket, client: Desktop) -> None:
    await peer.write(peer.handshake(client.token))
    await peer.answer()


async def _in_mid_snapshot(peer: RawSocket, client: Desktop) -> None:
    await _before_hello(peer, client)
    await peer.hello()


async def _greeted(peer: RawSocket, client: Desktop) -> None:
    await _in_mid_snapshot(peer, client)
    # Another socket of the same client may have replaced this one.
    with suppress(EOFError):
        await peer.text()
