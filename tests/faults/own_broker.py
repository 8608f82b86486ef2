"""A RabbitMQ node that one test file may break: the run's own is everybody's."""

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from devstack.stack import Stack

T = TypeVar("T")


class OwnBroker:
    """A supervised node in a thread of its own, since its fixture outlives each test's event loop."""

    def __init__(self, state_dir: Path) -> None:
        environ = {name: value for name, value in os.environ.items() if name != "AMQP_URL"}
        self._stack = Stack(state_dir, environ=environ, services={"rabbitmq"}, durable=False)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="own-broker", daemon=True)

    def start(self) -> None:
        """Returns once it answers."""
        self._thread.start()
        self._do(self._stack.__aenter__())

    def stop(self) -> None:
        """End it, whatever state it is in."""
        self._do(self._stack.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=60)
        self._loop.close()

    @property
    def url(self) -> str:
        return self._stack.endpoints.amqp_url

    async def restart(self) -> None:
        """An orderly stop, and a start; returns once it answers."""
        await asyncio.to_thread(self._do, self._stack.restart_part("rabbitmq"))

    def kill(self) -> None:
        """kill -9; the supervisor starts it again."""
        pid = self._stack.pid("rabbitmq")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    async def control(self, *arguments: str) -> str:
        """`rabbitmqctl` on this node; what it printed."""
        command, environment = self._stack.rabbitmqctl(*arguments)
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        printed, _ = await process.communicate()
        assert process.returncode == 0, printed.decode()
        return printed.decode()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=180)
