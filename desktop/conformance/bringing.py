"""Who starts the client under test, also again after a close that it must not come back from."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from desktop.conformance.stage import Address


class Bringer(Protocol):
    """Starts the client."""

    async def bring(self, address: Address) -> None:
        """Start the client, or start it again; returns before it has connected."""
        ...

    async def finish(self) -> None:
        """The last scenario is over."""
        ...


class PersonBrings:
    """Somebody at the terminal starts it."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._times = 0

    async def bring(self, address: Address) -> None:
        """Ask for it."""
        again = " again (it was told not to come back)" if self._times else ""
        self._times += 1
        self._say(f"start your client{again}")

    async def finish(self) -> None:
        """Nothing is ours."""


class CommandBrings:
    """A shell command starts it, with the address in its environment; a process that still runs is ended first."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None

    async def bring(self, address: Address) -> None:
        """Run the command."""
        await self.finish()
        environment = {
            **os.environ,
            "GIVEWAY_WS_URL": address.ws_url,
            "GIVEWAY_API_URL": address.api_url,
            "GIVEWAY_CLIENT_ID": address.client_id,
            "GIVEWAY_DEVICE_TOKEN": address.device_token,
        }
        # A group of its own, so that what the shell starts ends with it. Output goes where ours does not.
        self._process = await asyncio.create_subprocess_shell(
            self._command, env=environment, start_new_session=True, stdout=2
        )

    async def finish(self) -> None:
        """End the process, if it has not ended by itself."""
        process, self._process = self._process, None
        if process is None:
            return
        self._signal(process, signal.SIGTERM)
        try:
            async with asyncio.timeout(5):
                await process.wait()
        except TimeoutError:
            self._signal(process, signal.SIGKILL)
            await process.wait()

    @staticmethod
    def _signal(process: asyncio.subprocess.Process, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
