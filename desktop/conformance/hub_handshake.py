"""Checks of a hub: who is let in, and with which code everybody else is sent away."""

import asyncio
import time

from websockets.exceptions import InvalidStatus

from desktop.conformance.peer import Peer, fresh
from desktop.conformance.target import Target
from desktop.conformance.verdict import Check, RuleBroken, expect
from domain import protocol
from domain.protocol import SUBPROTOCOL, Authenticate, CloseCode, Heartbeat, Hello

UNKNOWN_VERSION = "giveway.v999"


async def unknown_path(target: Target) -> None:
    """404 for any other path."""
    try:
        async with target.peer(None, path=f"{protocol.PATH}/elsewhere"):
            raise RuleBroken("HTTP 404", "an open connection")
    except InvalidStatus as refused:
        status = refused.response.status_code
        expect(status == 404, "HTTP 404", status)


async def token_in_header(target: Target) -> None:
    """The usual way in: the version is chosen, hello is answered."""
    async with target.client() as client, target.peer(client.token) as peer:
        expect(peer.socket.subprotocol == SUBPROTOCOL, f"the subprotocol {SUBPROTOCOL}", peer.socket.subprotocol)
        await peer.hello()


async def token_in_first_frame(target: Target) -> None:
    """For clients that cannot set headers; acknowledged."""
    async with target.client() as client, target.peer(None) as peer:
        frame = Authenticate(id=fresh(), token=client.token)
        await peer.send(frame)
        await peer.acknowledged(frame.id)
        await peer.hello()


async def token_in_url(target: Target) -> None:
    """Refused whatever else is right."""
    async with target.client() as client:
        for token, query in ((None, f"token={client.token}"), (client.token, "access_token=anything")):
            async with target.peer(token, query=query) as peer:
                await peer.closed(CloseCode.TOKEN_IN_URL)


async def no_token(target: Target) -> None:
    """The first frame without a header is `authenticate` and nothing else."""
    for frame in (Hello(id=fresh()), Heartbeat(id=fresh())):
        async with target.peer(None) as peer:
            await peer.send(frame)
            await peer.closed(CloseCode.UNAUTHENTICATED)


async def wrong_token(target: Target) -> None:
    """In the header or in the first frame."""
    async with target.peer("no-such-token-" + fresh()) as peer:
        await peer.closed(CloseCode.UNAUTHENTICATED)
    async with target.peer(None) as peer:
        await peer.send(Authenticate(id=fresh(), token="no-such-token-" + fresh()))
        await peer.closed(CloseCode.UNAUTHENTICATED)


async def other_scheme(target: Target) -> None:
    """Only `Bearer` is a scheme."""
    async with target.client() as client:
        headers = {"Authorization": f"Basic {client.token}"}
        async with target.peer(None, headers=headers) as peer:
            await peer.closed(CloseCode.UNAUTHENTICATED)


async def late_token(target: Target) -> None:
    """5 s for the token."""
    async with target.peer(None) as peer:
        await _cut_off(target, peer)


async def late_hello(target: Target) -> None:
    """5 s for hello after it."""
    async with target.client() as client, target.peer(client.token) as peer:
        await _cut_off(target, peer)


async def _cut_off(target: Target, peer: Peer) -> None:
    seconds, slack = target.pace.authentication, target.pace.slack
    peer.patience = seconds + slack
    began = time.monotonic()
    await peer.closed(CloseCode.AUTHENTICATION_TIMEOUT)
    took = time.monotonic() - began
    expect(took > seconds * 0.8, f"{seconds:g} s to say something", f"closed after {took:.1f} s")


async def no_version(target: Target) -> None:
    """A client that offers no version that the hub speaks."""
    async with target.client() as client:
        for versions in (None, (UNKNOWN_VERSION,)):
            async with target.peer(client.token, versions=versions) as peer:
                await peer.closed(CloseCode.PROTOCOL_VERSION)


async def chosen_version(target: Target) -> None:
    """A newer client offers its versions; the one that both speak is chosen."""
    offered = (UNKNOWN_VERSION, SUBPROTOCOL)
    async with target.client() as client, target.peer(client.token, versions=offered) as peer:
        expect(peer.socket.subprotocol == SUBPROTOCOL, f"the subprotocol {SUBPROTOCOL}", peer.socket.subprotocol)
        await peer.hello()


async def other_version_in_hello(target: Target) -> None:
    """hello names the version that was chosen."""
    async with target.client() as client, target.peer(client.token) as peer:
        await peer.send(Hello(id=fresh(), protocol=UNKNOWN_VERSION))
        await peer.closed(CloseCode.PROTOCOL_VERSION)


async def pings(target: Target) -> None:
    """A ping of the client is answered."""
    async with target.client() as client, target.peer(client.token) as peer:
        await peer.hello()
        try:
            async with asyncio.timeout(target.pace.patience):
                await (await peer.socket.ping())
        except TimeoutError:
            raise RuleBroken(f"a pong within {target.pace.patience:g} s", "none") from None


HANDSHAKE = (
    Check("handshake.path", "Connecting", "any other path is HTTP 404", unknown_path),
    Check("handshake.header", "Connecting", "a token in the header lets in", token_in_header),
    Check("handshake.first_frame", "Connecting", "a token in the first frame lets in", token_in_first_frame),
    Check("handshake.token_in_url", "Connecting", "a query string is refused with 4505", token_in_url),
    Check("handshake.no_token", "Connecting", "another first frame is refused with 4501", no_token),
    Check("handshake.wrong_token", "Connecting", "an unknown token is refused with 4501", wrong_token),
    Check("handshake.scheme", "Connecting", "another scheme is refused with 4501", other_scheme),
    Check("handshake.late_token", "Connecting", "no token in 5 s is closed with 4420", late_token),
    Check("handshake.late_hello", "Connecting", "no hello in 5 s is closed with 4420", late_hello),
    Check("version.none", "Connecting", "no common version is closed with 4506", no_version),
    Check("version.chosen", "Connecting", "the common version is chosen", chosen_version),
    Check("version.hello", "Connecting", "another version in hello is closed with 4506", other_version_in_hello),
    Check("pings.answered", "Connecting", "a ping gets its pong", pings),
)
