"""Which version of the protocol a connection speaks (2-desktop §2.1; ADR 0046)."""

import pytest
from websockets.typing import Subprotocol

from domain.protocol import CloseCode, ErrorFrame, Hello, ProxyResponse
from hub import connection, handshake
from tests.hub.conftest import Desk, Rig, close_code

OLD, NEW = "giveway.v1", "giveway.v2"


@pytest.fixture
def two_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub that has learned another version."""
    for module in (connection, handshake):
        monkeypatch.setattr(module, "SUPPORTED", (NEW, OLD))


async def offering(rig: Rig, *versions: str) -> Desk:
    return await rig.desk(subprotocols=[Subprotocol(version) for version in versions])


@pytest.mark.usefixtures("two_versions")
@pytest.mark.parametrize(
    ("offered", "spoken"), [((NEW, OLD), NEW), ((OLD, NEW), OLD), (("giveway.v9", OLD), OLD), ((NEW,), NEW)]
)
async def test_the_first_version_offered_that_the_hub_knows_is_spoken(
    rig: Rig, offered: tuple[str, ...], spoken: str
) -> None:
    desk = await offering(rig, *offered)
    assert desk.socket.subprotocol == spoken
    await desk.send(Hello(id="h", protocol=spoken))
    assert (await desk.frame()).ref == "h"  # type: ignore[union-attr]


@pytest.mark.usefixtures("two_versions")
async def test_hello_names_the_version_that_was_agreed_not_another_that_the_hub_knows(rig: Rig) -> None:
    desk = await offering(rig, NEW, OLD)
    await desk.send(Hello(id="h", protocol=OLD))
    assert await desk.closed() == CloseCode.PROTOCOL_VERSION
    assert desk.socket.close_reason == f"this connection speaks {NEW}"
    assert rig.hub.connections == 0


@pytest.mark.usefixtures("two_versions")
async def test_without_a_common_version_the_reason_names_those_of_the_hub(rig: Rig) -> None:
    token, _client = rig.backend.register()
    for offered in (None, [Subprotocol("giveway.v9")]):
        socket = await rig.socket(token, subprotocols=offered)
        assert await close_code(socket) == CloseCode.PROTOCOL_VERSION
        assert socket.close_reason is not None
        assert {NEW, OLD} <= set(socket.close_reason.replace(",", "").split())


async def test_a_client_that_offers_newer_versions_too_is_served_as_ever(rig: Rig) -> None:
    desk = await offering(rig, "giveway.v7", "giveway.v6", OLD)
    assert desk.socket.subprotocol == OLD
    assert (await desk.hello()).last


async def test_a_proxy_answer_that_nobody_asked_for_gets_its_reply(rig: Rig) -> None:
    desk = await rig.desk()
    await desk.hello()
    await desk.send(ProxyResponse(id="p1", ref="never asked", status=200))
    error = await desk.next(ErrorFrame)
    assert (error.ref, error.code) == ("p1", "unknown_request")
