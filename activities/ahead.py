"""Making the next item while one is worked on."""

import asyncio
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """The items of a source in order; while one is worked on, the next is made, and no other.

    Leaving its context stops what is being made.
    """

    def __init__(self, source: AsyncGenerator[T]) -> None:
        self._source = source
        self._upcoming: asyncio.Future[T] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._upcoming is not None:
            self._upcoming.cancel()
            await asyncio.gather(self._upcoming, return_exceptions=True)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """The next item; the source's own error, or its end, when it comes to that."""
        item = await self._making()
        self._upcoming = None
        self._making()
        return item

    async def within(self, seconds: float) -> T | None:
        """The next item if it is there within so many seconds; None, after all of them, if it is not."""
        ends = asyncio.get_running_loop().time() + seconds
        await asyncio.wait({self._making()}, timeout=seconds)
        if self._making().done():
            try:
                return await anext(self)
            except StopAsyncIteration:
                await asyncio.sleep(ends - asyncio.get_running_loop().time())
        return None

    def _making(self) -> "asyncio.Future[T]":
        if self._upcoming is None:
            self._upcoming = asyncio.ensure_future(anext(self._source))
        return self._upcoming
