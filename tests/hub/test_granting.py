"""Grants go together, and a call that hangs stops nobody else's."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from domain.hub_port import ClientIdentity, GrantAnswer, GrantRequest
from domain.protocol import Hello
from hub.granting import CALLS_AT_ONCE, LARGEST_CALL, Granter
from tests.hub.memory_backend import MemoryBackend
from tests.support.broker import until


@dataclass
class SlowBackend(MemoryBackend):
    """Each call waits for its turn, until `let_all`."""

    patient: bool = True
    calls: list[list[UUID]] = field(default_factory=list)
    turns: list[asyncio.Event] = field(default_factory=list)

    async def grant(self, requests: Sequence[GrantRequest]) -> list[GrantAnswer]:
        turn = asyncio.Event()
        self.turns.append(turn)
        self.calls.append([request.client.client_id for request in requests])
        if self.patient:
            await turn.wait()
        return await super().grant(requests)

    def let_all(self) -> None:
        self.patient = False
        for turn in self.turns:
            turn.set()

    async def client(self) -> ClientIdentity:
        _, client = self.register()
        await self.connected(client, Hello(id="h1"))
        return client

    def request(self, client: ClientIdentity) -> GrantRequest:
        return GrantRequest(client, 1, (self.queue(client),))


async def asked(granter: Granter, request: GrantRequest) -> "asyncio.Task[GrantAnswer]":
    """A request that is on its way."""
    task = asyncio.create_task(granter.ask(request))
    await asyncio.sleep(0)
    return task


async def under_way(backend: SlowBackend, calls: int) -> None:
    await until(lambda: len(backend.calls) == calls)


async def test_a_call_that_hangs_stops_nobody_else() -> None:
    backend = SlowBackend()
    granter = Granter(backend)
    hanging = await asked(granter, backend.request(await backend.client()))
    await under_way(backend, 1)
    for number in range(2, 6):
        other = await asked(granter, backend.request(await backend.client()))
        await under_way(backend, number)
        backend.turns[-1].set()
        assert len((await other).frames) == 1
    assert not hanging.done()
    backend.turns[0].set()
    assert len((await hanging).frames) == 1


async def test_what_comes_while_calls_are_under_way_goes_together_in_calls_of_bounded_size() -> None:
    backend = SlowBackend()
    granter = Granter(backend)
    first = []
    for calls in range(1, CALLS_AT_ONCE + 1):
        first.append(await asked(granter, backend.request(await backend.client())))
        await under_way(backend, calls)
    rest = [await asked(granter, backend.request(await backend.client())) for _ in range(LARGEST_CALL + 5)]
    assert len(backend.calls) == CALLS_AT_ONCE
    backend.turns[0].set()
    await under_way(backend, CALLS_AT_ONCE + 1)
    backend.turns[1].set()
    await under_way(backend, CALLS_AT_ONCE + 2)
    assert sorted(len(call) for call in backend.calls[CALLS_AT_ONCE:]) == [5, LARGEST_CALL]
    backend.let_all()
    for task in [*first, *rest]:
        assert len((await task).frames) == 1


async def test_a_connection_that_ends_meanwhile_takes_nothing_from_the_others_of_its_call() -> None:
    backend = SlowBackend()
    granter = Granter(backend)
    first, leaving, staying = [await asked(granter, backend.request(await backend.client())) for _ in range(3)]
    await under_way(backend, CALLS_AT_ONCE)
    leaving.cancel()
    backend.let_all()
    assert [len((await task).frames) for task in (first, staying)] == [1, 1]
