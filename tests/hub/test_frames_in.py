"""Every bad frame has its documented end, and touches nobody else."""

import json

import pytest

from domain.protocol import (
    Authenticate,
    ClientAck,
    CloseCode,
    ErrorFrame,
    Heartbeat,
    HeldAttempt,
    Hello,
    ServerAck,
    Snapshot,
    Sync,
)
from tests.hub.conftest import Rig
from tests.support.broker import until

DEEP = "[" * 1000 + "]" * 1000


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("{", CloseCode.MALFORMED_FRAME),
        ("null", CloseCode.MALFORMED_FRAME),
        ('{"id": "1"}', CloseCode.MALFORMED_FRAME),
        ('{"type": 7, "id": "1"}', CloseCode.MALFORMED_FRAME),
        ('{"type": "sync", "id": "1", "held": NaN}', CloseCode.MALFORMED_FRAME),
        (DEEP, CloseCode.MALFORMED_FRAME),
        (b'{"type": "sync", "id": "1"}', CloseCode.MALFORMED_FRAME),
        ('{"type": "no_such_thing", "id": "1"}', CloseCode.UNKNOWN_TYPE),
        ('{"type": "task_available", "id": "1"}', CloseCode.UNKNOWN_TYPE),
        ('{"type": "sync", "id": "' + "x" * 70_000 + '"}', CloseCode.FRAME_TOO_LARGE),
        ("x" * 10_000_000, CloseCode.FRAME_TOO_LARGE),
    ],
)
async def test_a_frame_that_cannot_be_understood_closes_its_own_connection_only(
    rig: Rig, data: str | bytes, code: CloseCode
) -> None:
    neighbour, desk = await rig.desk(), await rig.desk()
    await neighbour.hello()
    await desk.hello()
    await desk.socket.send(data)
    assert await desk.closed() == code
    await neighbour.send(Sync(id="still here"))
    assert (await neighbour.next(Snapshot)).ref == "still here"
    await until(lambda: rig.backend.online == {neighbour.client.client_id})


async def test_bad_utf8_is_malformed(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    await desk.socket.send(b'{"type": "sync", "id": "\xff"}', text=True)
    assert await desk.closed() == CloseCode.MALFORMED_FRAME


async def test_a_fragmented_frame_is_one_frame_and_its_sum_counts(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    await desk.socket.send(['{"type": "sy', 'nc", "id"', ': "pieces"}'])
    assert (await desk.next(Snapshot)).ref == "pieces"
    await desk.socket.send(['{"type": "sync", "id": "', *["x" * 10_000] * 8, '"}'])
    assert await desk.closed() == CloseCode.FRAME_TOO_LARGE


@pytest.mark.parametrize(
    "fields",
    [
        {"held": "nothing"},
        {"held": [{"task_id": "not a uuid", "attempt_id": "0198c5a0-0000-7000-8000-000000000000"}]},
        {"held": [{"task_id": "l-12", "attempt_id": "12"}]},
        {"highest_generation": -1},
        {"highest_generation": 2**70},
        {"highest_generation": 1.5},
        {"highest_generation": True},
    ],
)
async def test_wrong_fields_are_answered_with_an_error_and_the_connection_stays(
    rig: Rig, fields: dict[str, object]
) -> None:
    desk = await rig.desk()
    await desk.hello()
    await desk.socket.send(json.dumps({"type": "sync", "id": "bad", **fields}))
    error = await desk.next(ErrorFrame)
    assert (error.ref, error.code) == ("bad", "invalid_frame")
    await desk.send(Sync(id="good", held=[HeldAttempt(task_id="l-12", attempt_id=str(desk.client.client_id))]))
    assert (await desk.next(Snapshot)).ref == "good"


async def test_a_nul_character_never_reaches_the_database(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    await desk.send(Heartbeat(id="b1", platform_sessions={"openai": "ok\x00"}))
    assert (await desk.next(ErrorFrame)).code == "invalid_frame"
    assert rig.backend.beats == []


async def test_every_command_gets_its_reply(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.send(Sync(id="too early"))
    error = await desk.next(ErrorFrame)
    assert (error.ref, error.code) == ("too early", "hello_required")
    await desk.send(Hello(id="h1"))
    assert (await desk.next(Snapshot)).ref == "h1"
    await desk.send(Hello(id="h2"))
    assert (await desk.next(ErrorFrame)).ref == "h2"
    await desk.send(Authenticate(id="a1", token="again"))
    assert (await desk.next(ErrorFrame)).ref == "a1"
    await desk.send(Heartbeat(id="b1"))
    assert (await desk.next(ServerAck)).ref == "b1"
    await desk.send(ClientAck(id="r1", ref="whatever"))
    await desk.send(Sync(id="s1"))
    assert (await desk.next(Snapshot)).ref == "s1"


async def test_a_flood_of_syncs_is_answered_by_few_snapshots_and_every_one_has_a_reply(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    for number in range(100):
        await desk.send(Sync(id=str(number)))
    refs: set[str | None] = set()
    while len(refs) < 100:
        frame = await desk.frame()
        if isinstance(frame, Snapshot | ServerAck):
            refs.add(frame.ref)
    assert refs == {str(number) for number in range(100)}
