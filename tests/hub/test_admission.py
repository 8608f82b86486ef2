"""Who is let in, and with which code everybody else is sent away."""

import asyncio
import logging
from dataclasses import replace

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from domain.errors import DatabaseUnavailable
from domain.protocol import SUBPROTOCOL, Authenticate, CloseCode, Heartbeat, Hello, ServerAck
from domain.protocol_catalogue import HANDSHAKE_REFUSALS
from tests.hub.conftest import LIMITS, Desk, MakeRig, Rig, close_code

UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
    + "A" * 22
    + "==\r\n"
)


async def test_a_token_in_the_header_lets_in(rig: Rig) -> None:
    desk = await rig.desk()
    snapshot = await desk.hello()
    assert desk.socket.subprotocol == "giveway.v1"
    assert snapshot.connection_epoch == 1
    assert rig.hub.connections == 1


async def test_a_token_in_the_first_frame_lets_in_and_is_acknowledged(rig: Rig) -> None:
    token, client = rig.backend.register()
    desk = Desk(await rig.socket(), client)
    await desk.send(Authenticate(id="a1", token=token))
    assert (await desk.next(ServerAck)).ref == "a1"
    assert (await desk.hello()).last


async def test_a_token_in_the_url_is_refused_even_if_valid_and_is_in_no_log(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    # The test's own end of the connection logs what it sends.
    logging.getLogger("websockets.client").setLevel(logging.WARNING)
    token, _client = rig.backend.register()
    assert await close_code(await rig.socket(token, f"?token={token}")) == CloseCode.TOKEN_IN_URL
    assert await close_code(await rig.socket(None, f"?access_token={token}")) == CloseCode.TOKEN_IN_URL
    assert token not in caplog.text
    assert rig.hub.connections == 0


@pytest.mark.parametrize("header", ["Bearer ", "Bearer nonsense", "Basic dXNlcjpwdw==", "Bearer " + "x" * 5000, "x"])
async def test_a_wrong_header_is_unauthenticated(rig: Rig, header: str) -> None:
    headers = {"Authorization": header}
    async with connect(rig.url(), additional_headers=headers, subprotocols=[Subprotocol(SUBPROTOCOL)]) as refused:
        assert await close_code(refused) == CloseCode.UNAUTHENTICATED


async def test_a_first_frame_that_is_no_token_is_unauthenticated(rig: Rig) -> None:
    for frame in (
        Hello(id="1"),
        Heartbeat(id="1"),
        Authenticate(id="1", token="unknown"),
        Authenticate(id="1", token=""),
    ):
        desk = Desk(await rig.socket(), rig.backend.register()[1])
        await desk.send(frame)
        assert await desk.closed() == CloseCode.UNAUTHENTICATED


async def test_silence_instead_of_a_token_or_a_hello_is_cut_off(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=replace(LIMITS, authentication_seconds=1.0))
    anonymous, mute = await rig.socket(), await rig.desk()
    assert await close_code(anonymous) == CloseCode.AUTHENTICATION_TIMEOUT
    assert await mute.closed() == CloseCode.AUTHENTICATION_TIMEOUT


async def test_another_protocol_version_is_refused(rig: Rig) -> None:
    token, _client = rig.backend.register()
    assert await close_code(await rig.socket(token, subprotocols=None)) == CloseCode.PROTOCOL_VERSION
    assert await close_code(await rig.socket(token, subprotocols=["giveway.v9"])) == CloseCode.PROTOCOL_VERSION
    desk = await rig.desk()
    await desk.send(Hello(id="h", protocol="giveway.v9"))
    assert await desk.closed() == CloseCode.PROTOCOL_VERSION


async def test_another_path_is_not_found(rig: Rig) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await connect(rig.url(path="/api/desktop/events"))
    assert refused.value.response.status_code == 404


async def test_a_target_that_is_no_url_is_not_found_and_fills_no_log(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.hub.port)
    writer.write(f"GET //[x HTTP/1.1\r\nHost: x\r\n{UPGRADE}\r\n".encode())
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 404")
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("request_line", "upgrade", "status"),
    [
        ("GET /api/desktop/ws HTTP/1.1", "", 426),
        ("GET /api/desktop/ws HTTP/1.1", "Connection: Upgrade\r\nUpgrade: websocket\r\n", 400),
        ("GET /api/desktop/ws HTTP/1.0", "", 505),
        ("POST /api/desktop/ws HTTP/1.1", "", 405),
        ("GET /nowhere HTTP/1.1", UPGRADE, 404),
    ],
)
async def test_what_is_no_handshake_is_refused_as_the_catalogue_says(
    rig: Rig, request_line: str, upgrade: str, status: int
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.hub.port)
    writer.write(f"{request_line}\r\nHost: x\r\n{upgrade}\r\n".encode())
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    assert int(answer.split(b" ", 2)[1]) == status
    assert status in {each.status for each in HANDSHAKE_REFUSALS}


async def test_a_database_that_is_away_sends_the_client_back_to_try_again(rig: Rig) -> None:
    rig.backend.failure = DatabaseUnavailable("away")
    assert await (await rig.desk()).closed() == CloseCode.SERVER_ERROR


async def test_many_admissions_at_once_end_in_distinct_clients(rig: Rig) -> None:
    desks = await asyncio.gather(*(rig.desk() for _ in range(50)))
    snapshots = await asyncio.gather(*(desk.hello() for desk in desks))
    assert {snapshot.connection_epoch for snapshot in snapshots} == {1}
    assert rig.hub.connections == 50
    assert rig.backend.online == {desk.client.client_id for desk in desks}
