"""Who is served when more want to be than may at once."""

import asyncio
from contextlib import suppress

from hub.turns import Turns


class Line:
    """Waiters that note their name when it is their turn, and keep it until they are told."""

    def __init__(self, turns: Turns) -> None:
        self.served: list[str] = []
        self._turns = turns
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str, *, begun: bool = False) -> None:
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._be_served(name, begun))
        await asyncio.sleep(0)

    async def _be_served(self, name: str, begun: bool) -> None:
        async with self._turns.take(begun=begun):
            self.served.append(name)
            await self._ends[name].wait()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await self._tasks[name]
        await asyncio.sleep(0)

    async def leave(self, name: str) -> None:
        self._tasks[name].cancel()
        with suppress(asyncio.CancelledError):
            await self._tasks[name]


async def test_only_so_many_are_served_at_once_and_each_line_in_its_order() -> None:
    line = Line(Turns(2))
    for name in "abcd":
        await line.come(name)
    assert line.served == ["a", "b"]
    await line.end("b", "a")
    assert line.served == ["a", "b", "c", "d"]


async def test_who_has_begun_goes_before_who_has_not() -> None:
    line = Line(Turns(1))
    for name in ("first", "new", "newer"):
        await line.come(name)
    await line.come("greeted", begun=True)
    await line.come("greeted later", begun=True)
    await line.end("first", "greeted", "greeted later", "new", "newer")
    assert line.served == ["first", "greeted", "greeted later", "new", "newer"]


async def test_who_leaves_the_line_is_not_waited_for() -> None:
    line = Line(Turns(1))
    for name in "abc":
        await line.come(name)
    await line.leave("b")
    await line.end("a", "c")
    assert line.served == ["a", "c"]


async def test_a_turn_that_comes_in_the_moment_of_a_cancel_goes_to_the_next() -> None:
    line = Line(Turns(1))
    for name in "abc":
        await line.come(name)
    line._ends["a"].set()
    await asyncio.sleep(0)
    # It is b's turn now, but b has not run since.
    await line.leave("b")
    await asyncio.sleep(0)
    assert line.served == ["a", "c"]
    await line.end("c")
