"""A workflow that ends while a handler of its runs; in a file of its own, for the sandbox imports the file anew."""

import asyncio

from temporalio import workflow


@workflow.defn
class Careless:
    """Its signal starts something that it does not wait for."""

    def __init__(self) -> None:
        self._signalled = False

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: self._signalled)

    @workflow.signal
    async def linger(self) -> None:
        self._signalled = True
        await asyncio.sleep(3600)
