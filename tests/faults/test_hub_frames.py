"""Bytes that no desktop sends: each gets its documented end, and the other sockets nothing at all (2-desktop §2.1)."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from websockets.frames import Opcode

from domain.protocol import (
    Authenticate,
    CloseCode,
    ErrorCode,
    ErrorFrame,
    Heartbeat,
    ServerAck,
    decode_server_frame,
    encode,
)
from tests.faults.hub_rig import HubRig
from tests.support.raw_socket import RawSocket
from tests.support.world import Desktop

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("hub")]

Act = Callable[[HubRig, RawSocket], Awaitable[None]]
BEAT = encode(Heartbeat(id="beat"))


def saying(data: bytes, opcode: Opcode = Opcode.TEXT) -> Act:
    """One frame."""

    async def act(_rig: HubRig, peer: RawSocket) -> None:
        await peer.write(peer.framed(data, opcode))

    return act


def writing(data: bytes) -> Act:
    """These bytes and no frame."""

    async def act(_rig: HubRig, peer: RawSocket) -> None:
        await peer.write(data)

    return act


async def many_small_fragments(_rig: HubRig, peer: RawSocket) -> None:
    """A message over the limit in pieces that are each small."""
    await peer.write(peer.framed(b"[", fin=False))
    for _ in range(70):
        await peer.write(peer.framed(b" " * 1000, Opcode.CONT, fin=False))


async def never_hello(_rig: HubRig, _peer: RawSocket) -> None:
    """Nothing."""


# By name: what is sent after the handshake with a good token, and the code that ends it.
ENDS: dict[str, tuple[Act, CloseCode]] = {
    "no JSON": (saying(b"{"), CloseCode.MALFORMED_FRAME),
    "no object": (saying(b"[1]"), CloseCode.MALFORMED_FRAME),
    "no type": (saying(b'{"id": "1"}'), CloseCode.MALFORMED_FRAME),
    "nothing": (saying(b""), CloseCode.MALFORMED_FRAME),
    "a thousand brackets": (saying(b"[" * 1000), CloseCode.MALFORMED_FRAME),
    "no UTF-8": (saying(b'{"type": "\xff\xfe"}'), CloseCode.MALFORMED_FRAME),
    "binary": (saying(BEAT.encode(), Opcode.BINARY), CloseCode.MALFORMED_FRAME),
    "unknown type": (saying(b'{"type": "coffee", "id": "1"}'), CloseCode.UNKNOWN_TYPE),
    "a server's frame": (saying(b'{"type": "snapshot", "id": "1"}'), CloseCode.UNKNOWN_TYPE),
    "64 KB and one byte": (saying(b" " * (64 * 1024 + 1)), CloseCode.FRAME_TOO_LARGE),
    # Its length alone is enough: nothing of it has come.
    "a length of 8 EB": (writing(b"\x81\xff\x7f" + b"\xff" * 7 + b"mask"), CloseCode.FRAME_TOO_LARGE),
    "too large in fragments": (many_small_fragments, CloseCode.FRAME_TOO_LARGE),
    "a frame without a mask": (writing(b"\x81\x02{}"), CloseCode.MALFORMED_FRAME),
    "garbage after the handshake": (writing(b"GET / HTTP/1.1\r\n\r\n"), CloseCode.MALFORMED_FRAME),
    "a reserved opcode": (writing(b"\x83\x80mask"), CloseCode.MALFORMED_FRAME),
    "no hello": (never_hello, CloseCode.AUTHENTICATION_TIMEOUT),
}


async def test_what_is_no_frame_ends_with_its_code(rig: HubRig, rng: random.Random) -> None:
    client = await rig.world.client(online=False)
    neighbours = [await rig.desk() for _ in range(3)]
    base = await rig.server.counts()
    cases = list(ENDS.items())
    rng.shuffle(cases)
    found = dict(await asyncio.gather(*(_end(rig, client, name, act) for name, (act, _) in cases)))
    assert found == {name: code for name, (_, code) in ENDS.items()}
    for desk in neighbours:
        await desk.send(Heartbeat(id="beat"))
        assert (await desk.next(ServerAck)).ref == "beat"
    await rig.server.back_to(base)


async def _end(rig: HubRig, client: Desktop, name: str, act: Act) -> tuple[str, int | None]:
    peer = await rig.peer(client.token)
    await act(rig, peer)
    code = await peer.closed()
    peer.close()
    return name, code


async def test_frames_that_are_only_wrong_are_answered_and_the_connection_goes_on(rig: HubRig) -> None:
    peer = await rig.greeted()
    wrong = [
        '{"type": "heartbeat", "id": "w", "running": 7}',
        '{"type": "heartbeat", "id": "w", "running": [{"task_id": "no uuid", "attempt_id": "x"}]}',
        '{"type": "sync", "id": "w", "highest_generation": 1e999}',
        '{"type": "sync", "id": "w", "highest_generation": -1}',
        '{"type": "ack", "id": "w"}',
        '{"type": "heartbeat", "id": "w", "platform_sessions": {"qwen": "\\u0000"}}',
    ]
    for text in wrong:
        await peer.say(text)
        answer = decode_server_frame(await peer.text())
        assert isinstance(answer, ErrorFrame)
        assert (answer.ref, answer.code) == ("w", ErrorCode.INVALID_FRAME)
    await peer.say(BEAT)
    assert isinstance(decode_server_frame(await peer.text()), ServerAck)


async def test_a_frame_in_slow_fragments_is_one_frame_and_pings_between_them_are_answered(rig: HubRig) -> None:
    slow, neighbour = await rig.greeted(), await rig.desk()
    pieces = [BEAT[at : at + 5].encode() for at in range(0, len(BEAT), 5)]
    for number, piece in enumerate(pieces):
        opcode = Opcode.CONT if number else Opcode.TEXT
        await slow.write(slow.framed(piece, opcode, fin=number == len(pieces) - 1))
        # Somebody else's frame goes there and back between two pieces.
        await neighbour.send(Heartbeat(id=str(number)))
        assert (await neighbour.next(ServerAck)).ref == str(number)
        if number == 1:
            await slow.write(slow.framed(b"alive", Opcode.PING))
            assert await slow.next(Opcode.PONG) == b"alive"
    answer = decode_server_frame(await slow.text())
    assert isinstance(answer, ServerAck)
    assert answer.ref == "beat"


async def test_more_frames_than_a_desktop_ever_sends_are_too_many(rig: HubRig) -> None:
    peer = await rig.greeted()
    beat = peer.framed(BEAT.encode())
    with suppress(ConnectionError):
        await peer.write(beat * 2000)
    # The code, unless our own writing on brings a RST before it.
    assert await peer.closed() in (CloseCode.TOO_MANY_FRAMES, None)


async def test_whoever_is_not_authenticated_gets_nothing_but_a_code(rig: HubRig) -> None:
    base = await rig.server.counts()
    client = await rig.world.client(online=False)
    good = encode(Authenticate(id="1", token=client.token))
    # Side by side: one of them takes its 5 s.
    assert await asyncio.gather(
        _after_upgrade(rig, "", BEAT),
        _after_upgrade(rig, "", encode(Authenticate(id="1", token="guessed"))),
        _after_upgrade(rig, "", "{"),
        _after_upgrade(rig, "", None),
        _after_upgrade(rig, f"?token={client.token}", good),
        _after_upgrade(rig, "", good, subprotocols=["giveway.v0"]),
    ) == [
        CloseCode.UNAUTHENTICATED,
        CloseCode.UNAUTHENTICATED,
        CloseCode.MALFORMED_FRAME,
        CloseCode.AUTHENTICATION_TIMEOUT,
        CloseCode.TOKEN_IN_URL,
        CloseCode.PROTOCOL_VERSION,
    ]
    assert client.token not in rig.server.log()
    await rig.server.back_to(base)


async def _after_upgrade(rig: HubRig, query: str, text: str | None, **options: Any) -> int | None:
    peer = await rig.stranger(query=query, **options)
    await peer.write(peer.handshake())
    await peer.answer()
    if text is not None:
        await peer.say(text)
    code = await peer.closed()
    peer.close()
    return code


NO_HANDSHAKES = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n" + bytes(32),
    "no upgrade": b"GET /api/desktop/ws HTTP/1.1\r\nHost: x\r\n\r\n",
    "POST": b"POST /api/desktop/ws HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
    "another path": b"GET /elsewhere HTTP/1.1\r\nHost: x\r\n\r\n",
    "a path of 100 KB": b"GET /" + b"a" * 100_000,
    "a header of 100 KB": b"GET /api/desktop/ws HTTP/1.1\r\nX: " + b"a" * 100_000,
    "10,000 headers": b"GET /api/desktop/ws HTTP/1.1\r\n" + b"X: a\r\n" * 10_000,
}


async def test_what_is_no_handshake_is_turned_away(rig: HubRig) -> None:
    neighbour = await rig.desk()
    base = await rig.server.counts()
    for name, sent in NO_HANDSHAKES.items():
        peer = await rig.stranger()
        with suppress(ConnectionError):
            await peer.write(sent)
        answer = await peer.rest()
        # An HTTP error where the request could be read as one, else an end without a word.
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), name
        assert b"101" not in answer
    await neighbour.send(Heartbeat(id="beat"))
    assert (await neighbour.next(ServerAck)).ref == "beat"
    await rig.server.back_to(base)


async def test_half_a_handshake_is_not_waited_for(rig: HubRig) -> None:
    base = await rig.server.counts()
    peers = [await rig.stranger() for _ in range(30)]
    for number, peer in enumerate(peers):
        await peer.write(peer.handshake("some token")[: (0, 1, 60)[number % 3]])
    for peer in peers:
        await peer.rest()
    await rig.server.back_to(base)
