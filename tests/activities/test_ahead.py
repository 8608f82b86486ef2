"""The next item is made while one is worked on, and no other."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from activities.ahead import Ahead


async def turns() -> None:
    """Let everything that can run do so."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_item_is_made_while_one_is_worked_on() -> None:
    made: list[int] = []

    async def numbers() -> AsyncGenerator[int]:
        for number in range(1, 5):
            made.append(number)
            yield number

    seen = []
    async with Ahead(numbers()) as ahead:
        async for number in ahead:
            seen.append(number)
            await turns()
            assert made == list(range(1, min(number + 1, 4) + 1))
    assert seen == [1, 2, 3, 4]


async def test_the_items_before_an_error_come_and_then_the_error() -> None:
    async def numbers() -> AsyncGenerator[int]:
        yield 1
        raise LookupError("the source broke")

    async with Ahead(numbers()) as ahead:
        assert await anext(ahead) == 1
        with pytest.raises(LookupError):
            await anext(ahead)


async def test_an_item_that_is_not_there_in_time_is_not_lost() -> None:
    ready = asyncio.Event()

    async def numbers() -> AsyncGenerator[int]:
        await ready.wait()
        yield 1

    async with Ahead(numbers()) as ahead:
        assert await ahead.within(0.01) is None
        ready.set()
        assert await ahead.within(30) == 1
        assert await ahead.within(0.01) is None


async def test_leaving_stops_what_is_being_made() -> None:
    stopped = asyncio.Event()

    async def numbers() -> AsyncGenerator[int]:
        yield 1
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with Ahead(numbers()) as ahead:
        assert await anext(ahead) == 1
        await turns()
    assert stopped.is_set()
