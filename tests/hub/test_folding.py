"""Reports that are folded reach the backend, late rather than never."""

import asyncio
from collections.abc import Mapping

from hub.folding import Folder
from tests.support.broker import until


class Desk:
    """Takes reports; the first `away` calls fail."""

    def __init__(self, away: int = 0) -> None:
        self.away = away
        self.calls: list[dict[int, str]] = []

    async def take(self, items: Mapping[int, str]) -> None:
        self.calls.append(dict(items))
        if len(self.calls) <= self.away:
            raise ConnectionError("away")


async def test_what_could_not_be_handed_over_is_repeated_with_newer_reports_in_the_place_of_older_ones() -> None:
    desk = Desk(away=1)
    folder = Folder[int, str]("test", desk.take)
    folder.add(1, "old")
    folder.add(2, "kept")
    await until(lambda: desk.calls)
    folder.add(1, "new")
    folder.add(3, "more")
    await until(lambda: len(desk.calls) == 2)
    assert desk.calls == [{1: "old", 2: "kept"}, {1: "new", 2: "kept", 3: "more"}]


async def test_the_end_waits_for_no_delay() -> None:
    desk = Desk()
    folder = Folder[int, str]("test", desk.take, delay=3600.0)
    folder.add(1, "last")
    async with asyncio.timeout(20):
        await folder.finish(15.0)
    assert desk.calls == [{1: "last"}]


async def test_the_end_gives_up_a_backend_that_does_not_answer_and_leaves_nothing_running() -> None:
    others = asyncio.all_tasks()

    async def hang(_items: Mapping[int, str]) -> None:
        await asyncio.Event().wait()

    folder = Folder[int, str]("test", hang)
    folder.add(1, "lost")
    async with asyncio.timeout(20):
        await folder.finish(0.05)
    assert asyncio.all_tasks() == others
