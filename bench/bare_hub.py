"""The yardstick of the hub benchmark: a bare server of the same WebSocket library with the same options.

It knows no client, no database and no broker: it takes sockets, answers greetings and heartbeats, and pushes frames of
the same sizes at the same rate to sockets taken at random.
"""

import random
from contextlib import suppress
from typing import Any

import msgspec
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from bench.hub_child import footprint, run_child, say, serve_questions
from bench.hub_frames import NOBODY, an_empty_snapshot, stamped
from bench.hub_pace import paced
from domain.protocol import MAX_FRAME_BYTES, SUBPROTOCOL, ServerAck, encode
from hub.ports import Limits


class Command(msgspec.Struct):
    """All that it reads of a frame."""

    type: str
    id: str


_commands = msgspec.json.Decoder(Command)


class BareHub:
    """The server and its sockets."""

    def __init__(self) -> None:
        self._sockets: set[ServerConnection] = set()
        self._random = random.Random(1)

    async def handle(self, socket: ServerConnection) -> None:
        """One socket, until it ends."""
        self._sockets.add(socket)
        with suppress(ConnectionClosed):
            async for data in socket:
                command = _commands.decode(data)
                if command.type == "hello":
                    await socket.send(an_empty_snapshot(command.id))
                else:
                    await socket.send(encode(ServerAck(id=NOBODY, ref=command.id)))
        self._sockets.discard(socket)

    async def push(self, given: dict[str, Any]) -> dict[str, int]:
        """`sizes` by kind in turns, `rate` a second in all, for `seconds`; says how many were sent."""
        sockets, kinds = list(self._sockets), list(given["sizes"].items())
        count = 0
        async for _ in paced(given["rate"], given["seconds"]):
            kind, size = kinds[count % len(kinds)]
            await self._random.choice(sockets).send(stamped(size, kind))
            count += 1
        return {"pushed": count}


async def _main(_: dict[str, Any]) -> None:
    bare, limits = BareHub(), Limits()
    async with serve(
        bare.handle,
        "127.0.0.1",
        0,
        subprotocols=[Subprotocol(SUBPROTOCOL)],
        compression=None,
        max_size=MAX_FRAME_BYTES,
        ping_interval=limits.ping_interval,
        ping_timeout=limits.ping_timeout,
        close_timeout=limits.close_seconds,
    ) as server:
        say({"port": server.sockets[0].getsockname()[1]})
        await serve_questions({"footprint": footprint, "push": bare.push})


if __name__ == "__main__":
    run_child(_main)
