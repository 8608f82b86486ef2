"""Checks of a hub: what it makes of frames, well-formed and not, and that every command is answered."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from uuid import uuid4

from desktop.conformance.peer import Peer, fresh
from desktop.conformance.target import Target
from desktop.conformance.verdict import Check, expect
from domain import protocol
from domain.protocol import (
    MAX_FRAME_BYTES,
    SNAPSHOT_PAGE,
    Authenticate,
    ClientAck,
    CloseCode,
    ErrorCode,
    Heartbeat,
    HeldAttempt,
    Hello,
    ServerAck,
    Snapshot,
    Sync,
)

MANY = 20
NO_OBJECTS = ("{", "[]", '"text"', "7", '{"id":"1"}', '{"type":7,"id":"1"}', "")


@asynccontextmanager
async def greeted(target: Target) -> AsyncIterator[Peer]:
    """A client's connection after its hello."""
    async with target.client() as client, target.peer(client.token) as peer:
        await peer.hello()
        yield peer


async def hello_answered(target: Target) -> None:
    """A snapshot in numbered pages, closed by `last`."""
    async with target.client() as client, target.peer(client.token) as peer:
        pages = await peer.hello()
        numbers = [page.page for page in pages]
        expect(numbers == list(range(len(pages))), "pages numbered from 0", numbers)
        expect(len({page.connection_epoch for page in pages}) == 1, "one epoch on all pages", "several")
        largest = max(len(page.available) + len(page.controls) + len(page.held) for page in pages)
        expect(largest <= SNAPSHOT_PAGE, f"at most {SNAPSHOT_PAGE} items a page", largest)


async def epochs_grow(target: Target) -> None:
    """Each connection of a client has a higher epoch than every earlier one."""
    epochs: list[int] = []
    async with target.client() as client:
        for _ in range(3):
            async with target.peer(client.token) as peer:
                epochs.append((await peer.hello())[0].connection_epoch)
    expect(all(first < second for first, second in pairwise(epochs)), "growing epochs", epochs)


async def verdict_on_held(target: Target) -> None:
    """An attempt that the server does not know is called over."""
    held = HeldAttempt(task_id=str(uuid4()), attempt_id=str(uuid4()), phase="WAITING", state="running")
    async with target.client() as client, target.peer(client.token) as peer:
        pages = await peer.hello(held)
        verdicts = [one for page in pages for one in page.held if one.attempt_id == held.attempt_id]
        expect(len(verdicts) == 1, "one verdict on each attempt that hello lists", len(verdicts))
        expect(not verdicts[0].valid, "`valid` false for an attempt that nobody gave", "true")


async def second_hello(target: Target) -> None:
    """already_greeted."""
    async with greeted(target) as peer:
        hello = Hello(id=fresh())
        await peer.send(hello)
        await peer.refused(hello.id, ErrorCode.ALREADY_GREETED)


async def second_token(target: Target) -> None:
    """already_authenticated."""
    async with greeted(target) as peer:
        frame = Authenticate(id=fresh(), token="anything")
        await peer.send(frame)
        await peer.refused(frame.id, ErrorCode.ALREADY_AUTHENTICATED)


async def early_sync(target: Target) -> None:
    """hello_required."""
    async with target.client() as client, target.peer(client.token) as peer:
        sync = Sync(id=fresh())
        await peer.send(sync)
        await peer.refused(sync.id, ErrorCode.HELLO_REQUIRED)
        await peer.hello()


async def sync_answered(target: Target) -> None:
    """A snapshot whenever it asks."""
    async with greeted(target) as peer:
        sync = Sync(id=fresh())
        await peer.send(sync)
        await peer.pages(sync.id)


async def syncs_overtake(target: Target) -> None:
    """Many at once: each is answered, by an ack or a snapshot; the last by a snapshot."""
    async with greeted(target) as peer:
        syncs = [Sync(id=fresh()) for _ in range(MANY)]
        for sync in syncs:
            await peer.send(sync)
        await peer.pages(syncs[-1].id)
        replies = {frame.ref for frame in peer.seen if isinstance(frame, ServerAck | Snapshot)}
        missing = [sync.id for sync in syncs[:-1] if sync.id not in replies]
        expect(not missing, "a reply to each of them by then", f"none to {len(missing)} of {MANY}")


async def heartbeats_answered(target: Target) -> None:
    """Each by an ack with its ref, in order."""
    async with greeted(target) as peer:
        beats = [Heartbeat(id=fresh(), platform_sessions={"conformance": "login_required"}) for _ in range(MANY)]
        for beat in beats:
            await peer.send(beat)
        for beat in beats:
            await peer.acknowledged(beat.id)


async def receipts_taken(target: Target) -> None:
    """A receipt changes nothing and needs no answer."""
    async with greeted(target) as peer:
        ack = ClientAck(id=fresh(), ref=fresh())
        await peer.send(ack)
        await peer.still_open()
        expect(ack.id not in {getattr(frame, "ref", None) for frame in peer.seen}, "no answer to an ack", "one")


async def unknown_type(target: Target) -> None:
    """4503."""
    async with greeted(target) as peer:
        await peer.text(f'{{"type":"conformance_of_tomorrow","id":"{fresh()}"}}')
        await peer.closed(CloseCode.UNKNOWN_TYPE)


async def malformed(target: Target) -> None:
    """4502, for each kind of nonsense."""
    async with target.client() as client:
        for text in NO_OBJECTS:
            async with target.peer(client.token) as peer:
                await peer.hello()
                await peer.text(text)
                await peer.closed(CloseCode.MALFORMED_FRAME)


async def no_utf8(target: Target) -> None:
    """4502."""
    async with greeted(target) as peer:
        await peer.socket.send(b'{"type":"heartbeat","id":"\xff\xfe"}', text=True)
        await peer.closed(CloseCode.MALFORMED_FRAME)


async def binary(target: Target) -> None:
    """4502, whatever is in it."""
    async with greeted(target) as peer:
        await peer.socket.send(protocol.encode(Heartbeat(id=fresh())).encode())
        await peer.closed(CloseCode.MALFORMED_FRAME)


async def too_large(target: Target) -> None:
    """4504 over 64 KB."""
    async with greeted(target) as peer:
        await peer.text(_padded(Heartbeat(id=fresh()), MAX_FRAME_BYTES + 1))
        await peer.closed(CloseCode.FRAME_TOO_LARGE)


async def just_fits(target: Target) -> None:
    """64 KB are taken."""
    async with greeted(target) as peer:
        beat = Heartbeat(id=fresh())
        await peer.text(_padded(beat, MAX_FRAME_BYTES))
        await peer.acknowledged(beat.id)


def _padded(beat: Heartbeat, size: int) -> str:
    """The heartbeat with an unknown field that makes it so many bytes."""
    text = protocol.encode(beat)[:-1] + ',"padding":""}'
    return text[:-2] + "x" * (size - len(text)) + text[-2:]


async def unknown_fields(target: Target) -> None:
    """Ignored."""
    async with greeted(target) as peer:
        beat = Heartbeat(id=fresh())
        await peer.text(protocol.encode(beat)[:-1] + ',"field_of_tomorrow":{"deep":[null,1]}}')
        await peer.acknowledged(beat.id)


async def fragments(target: Target) -> None:
    """A message in several WebSocket frames is one message."""
    async with greeted(target) as peer:
        beat = Heartbeat(id=fresh())
        text = protocol.encode(beat)
        await peer.socket.send([text[:5], text[5:9], text[9:]])
        await peer.acknowledged(beat.id)


async def wrong_fields(target: Target) -> None:
    """invalid_frame, with the connection open."""
    held = '[{"task_id":"no-uuid","attempt_id":"no-uuid"}]'
    bodies = (
        '"type":"heartbeat","running":7',
        f'"type":"heartbeat","running":{held}',
        f'"type":"sync","held":{held}',
        '"type":"sync","highest_generation":-1',
        '"type":"sync","highest_generation":"many"',
    )
    async with greeted(target) as peer:
        for body in bodies:
            frame_id = fresh()
            await peer.text(f'{{{body},"id":"{frame_id}"}}')
            await peer.refused(frame_id, ErrorCode.INVALID_FRAME)


async def nul_character(target: Target) -> None:
    """invalid_frame: no database takes it."""
    async with greeted(target) as peer:
        frame_id = fresh()
        await peer.text(f'{{"type":"heartbeat","id":"{frame_id}","platform_sessions":{{"a":"\\u0000"}}}}')
        await peer.refused(frame_id, ErrorCode.INVALID_FRAME)


async def slots_out_of_bounds(target: Target) -> None:
    """invalid_frame for a hello with no slot; a right one is taken afterwards."""
    async with target.client() as client, target.peer(client.token) as peer:
        hello = Hello(id=fresh(), max_concurrent=0)
        await peer.send(hello)
        await peer.refused(hello.id, ErrorCode.INVALID_FRAME)
        await peer.hello()


async def several_at_once(target: Target) -> None:
    """Commands of different kinds written in one go are all answered."""
    async with greeted(target) as peer:
        beat, sync = Heartbeat(id=fresh()), Sync(id=fresh())
        await asyncio.gather(peer.send(beat), peer.send(sync))
        await peer.pages(sync.id)
        if beat.id not in {getattr(frame, "ref", None) for frame in peer.seen}:
            await peer.acknowledged(beat.id)


FRAMES = (
    Check("hello.snapshot", "From hub to client", "hello is answered by a snapshot in pages", hello_answered),
    Check("hello.epoch", "From hub to client", "the connection's epoch grows", epochs_grow),
    Check("hello.held", "From hub to client", "each listed attempt gets a verdict", verdict_on_held),
    Check("hello.twice", "From hub to client", "a second hello is an error already_greeted", second_hello),
    Check(
        "hello.slots",
        "From hub to client",
        "max_concurrent out of bounds is an error invalid_frame",
        slots_out_of_bounds,
    ),
    Check("authenticate.twice", "From hub to client", "a second token is an error already_authenticated", second_token),
    Check("sync.early", "From hub to client", "sync before hello is an error hello_required", early_sync),
    Check("sync.answered", "From hub to client", "sync is answered by a snapshot", sync_answered),
    Check("sync.overtaking", "From hub to client", "each of many syncs is answered", syncs_overtake),
    Check("heartbeat.answered", "From client to hub", "each heartbeat is acknowledged", heartbeats_answered),
    Check("frames.receipt", "Frames", "a receipt needs no answer", receipts_taken),
    Check("frames.several", "Frames", "commands written together are each answered", several_at_once),
    Check("frames.unknown_type", "Close codes", "an unknown type is closed with 4503", unknown_type),
    Check("frames.malformed", "Close codes", "no JSON object with a type is closed with 4502", malformed),
    Check("frames.utf8", "Close codes", "no UTF-8 is closed with 4502", no_utf8),
    Check("frames.binary", "Close codes", "a binary frame is closed with 4502", binary),
    Check("frames.too_large", "Close codes", "over 64 KB is closed with 4504", too_large),
    Check("frames.just_fits", "Frames", "64 KB are taken", just_fits),
    Check("frames.unknown_fields", "Frames", "unknown fields are ignored", unknown_fields),
    Check("frames.fragments", "Frames", "a message in fragments is one message", fragments),
    Check("frames.wrong_fields", "From hub to client", "wrong fields are an error invalid_frame", wrong_fields),
    Check("frames.nul", "From hub to client", "U+0000 is an error invalid_frame", nul_character),
)
