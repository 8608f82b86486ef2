"""Questions asked of a service over its own protocol. False means not yet; nothing here raises."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import aio_pika
import asyncpg
import httpx
from temporalio.client import Client

_LIMIT = 5.0


async def tcp(host: str, port: int) -> bool:
    """Something listens."""
    try:
        async with asyncio.timeout(_LIMIT):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def postgres(url: str) -> bool:
    """PostgreSQL takes this login and answers a query."""
    try:
        connection = await asyncpg.connect(url, timeout=_LIMIT)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError):
        return False
    await connection.close()
    return True


async def amqp(url: str) -> bool:
    """The broker takes this login and opens the virtual host."""
    if not await tcp(urlsplit(url).hostname or "127.0.0.1", _amqp_port(url)):
        return False  # asked first, because the client logs every refusal
    try:
        connection = await aio_pika.connect(url, timeout=_LIMIT)
    except (OSError, TimeoutError, aio_pika.exceptions.AMQPError, ValueError):
        return False
    await connection.close()
    return True


def _amqp_port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (5671 if parts.scheme == "amqps" else 5672)


async def temporal(address: str) -> bool:
    """Temporal's front end answers."""
    return await temporal_client(address, "default") is not None


async def temporal_client(address: str, namespace: str) -> Client | None:
    """A connected client, or None."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or not await tcp(host, int(port)):
        return None  # asked first, because the client retries for ten seconds
    try:
        async with asyncio.timeout(_LIMIT):
            return await Client.connect(address, namespace=namespace)
    except (RuntimeError, OSError, TimeoutError):
        return None


async def http_ok(url: str) -> bool:
    """GET answers 200."""
    try:
        async with httpx.AsyncClient(timeout=_LIMIT, trust_env=False) as client:
            return (await client.get(url)).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


async def file_exists(path: Path) -> bool:
    """The process has written its readiness file."""
    return path.exists()  # noqa: ASYNC240 - one stat of a local file
