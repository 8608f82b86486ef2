"""A TCP proxy in front of a real server, to cut or to swallow its connections."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import cycle
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit


class TcpProxy:
    """Forwards to `host:port`; `cut` drops every connection, `refuse` new ones too, `swallow` forwards nothing."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.refusing = False
        self.accepted = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        """The server's address by way of this proxy."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        login = self._url.netloc.rpartition("@")[0]
        return urlunsplit(self._url._replace(netloc=f"{login}@127.0.0.1:{port}" if login else f"127.0.0.1:{port}"))

    def cut(self) -> None:
        """Reset every connection there is."""
        for writer in list(self._writers):
            writer.transport.abort()

    def swallow(self, on: bool = True) -> None:
        """Keep connections open and forward nothing, or forward again."""
        if on:
            self._flowing.clear()
        else:
            self._flowing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self.refusing:
            writer.transport.abort()
            return
        try:
            upstream_reader, upstream = await self._connect()
        except ConnectionRefusedError:
            writer.transport.abort()
            return
        self._writers |= {writer, upstream}
        for source, target in ((reader, upstream), (upstream_reader, writer)):
            task = asyncio.create_task(self._pump(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self._url.hostname, self._url.port)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                await self._flowing.wait()
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            self._writers.discard(target)
            target.transport.abort()


class RoundRobin(TcpProxy):
    """One address for several servers: connections go to them in turn, past those that do not listen."""

    def __init__(self, urls: Sequence[str]) -> None:
        super().__init__(urls[0])
        self._turn = cycle([urlsplit(url) for url in urls])
        self._count = len(urls)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for _ in range(self._count):
            upstream = next(self._turn)
            with suppress(ConnectionRefusedError):
                return await asyncio.open_connection(upstream.hostname, upstream.port)
        raise ConnectionRefusedError("nobody listens")
