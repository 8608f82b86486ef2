"""Waiting for a wake-up."""

import asyncio

from store.listen import wait_for_wake


async def test_a_cancel_in_the_moment_of_a_wake_up_is_not_lost() -> None:
    """A resident that lost it would go on for ever, and whoever cancelled it would wait for ever."""
    event = asyncio.Event()

    async def loop() -> None:
        while True:
            await wait_for_wake(event, 60)

    for steps in range(4):
        waiting = asyncio.create_task(loop())
        await asyncio.sleep(0.01)
        event.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        waiting.cancel()
        done, _ = await asyncio.wait({waiting}, timeout=5)
        assert done, steps


async def test_it_says_whether_a_wake_up_came_and_clears_it() -> None:
    event = asyncio.Event()
    assert not await wait_for_wake(event, 0.01)
    event.set()
    assert await wait_for_wake(event, 60)
    assert not event.is_set()
