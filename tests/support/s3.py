"""A real S3 server on a folder, with signatures checked, to start and stop; and one that answers what it is told."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest

from store.raw_answers import RawAnswers

RCLONE: Final = Path(sys.executable).parent / "rclone"
ACCESS_KEY, SECRET_KEY = "giveway-test", "secret-of-the-test"
BUCKET: Final = "answers"
LISTENING: Final = re.compile(rb"Starting s3 server on \[http://127\.0\.0\.1:(\d+)/\]")


class S3Server:
    """`rclone serve s3` on `folder`; a bucket is a folder in it. Keeps its port over a stop and start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.secret = SECRET_KEY
        self.port = 0
        self._process: asyncio.subprocess.Process | None = None
        (folder / BUCKET).mkdir(parents=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def endpoint(self) -> str:
        """What AWS_ENDPOINT names."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Returns once it listens."""
        self._process = await asyncio.create_subprocess_exec(
            str(RCLONE), "serve", "s3", "--addr", f"127.0.0.1:{self.port}", "--auth-key", f"{ACCESS_KEY},{self.secret}",
            "--config", os.devnull, "--vfs-cache-mode", "off", "--dir-cache-time", "1ms", str(self.folder),
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stderr is not None
        async with asyncio.timeout(30):
            while (found := LISTENING.search(line := await self._process.stderr.readline())) is None:
                assert line, "the S3 server ended before it listened"
        self.port = int(found[1])

    async def stop(self) -> None:
        """Connections are refused from now on."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()


def store_on(
    endpoint: str, patch: pytest.MonkeyPatch, *, url: str = f"s3://{BUCKET}/raw", secret: str = SECRET_KEY
) -> RawAnswers:
    """The store as an installation has it: everything but the URL from the environment."""
    for name, value in {
        "AWS_ENDPOINT": endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": secret,
    }.items():
        patch.setenv(name, value)
    return RawAnswers(url)


def files_under(folder: Path) -> list[Path]:
    """Every file, however deep."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


# Method, path and length of the body → status and error code; status 200 has none.
Rule = Callable[[str, str, int], tuple[int, str]]


@dataclass
class ScriptedStore:
    """An HTTP server for the answers that a real one gives only in distress; it keeps nothing."""

    rule: Rule
    requests: int = 0
    _server: asyncio.Server | None = None
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def endpoint(self) -> str:
        """What AWS_ENDPOINT names."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.append(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, path, _ = head.split(b" ", 2)
                length = re.search(rb"content-length: (\d+)", head.lower())
                body = await reader.readexactly(int(length[1]) if length else 0)
                self.requests += 1
                writer.write(_response(*self.rule(method.decode(), path.decode(), len(body))))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def _response(status: int, code: str) -> bytes:
    page = f"<?xml version='1.0'?>\n<Error><Code>{code}</Code><AWSAccessKeyId>{ACCESS_KEY}</AWSAccessKeyId></Error>"
    body = b"" if status < 300 else page.encode()
    return b'HTTP/1.1 %d x\r\nETag: "x"\r\nContent-Length: %d\r\n\r\n%s' % (status, len(body), body)
