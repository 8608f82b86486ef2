"""An even pace, the same for everybody who pushes."""

import asyncio
from collections.abc import AsyncIterator


async def paced(rate: float, seconds: float) -> AsyncIterator[int]:
    """0, 1, 2 … at `rate` a second for `seconds`; what is late comes at once, nothing is left out."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number in range(round(rate * seconds)):
        wait = began + number / rate - loop.time()
        if wait > 0:
            await asyncio.sleep(wait)
        yield number
