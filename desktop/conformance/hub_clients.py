"""Checks of a hub: one connection per client, revocation, and the REST calls as far as no work is needed."""

import time
from typing import Any, Final
from uuid import uuid4

import httpx

from desktop.conformance.peer import fresh
from desktop.conformance.target import CLIENTS, Target, expect_problem, told
from desktop.conformance.verdict import Check, expect
from domain.protocol import CloseCode, Sync

TOKEN: Final = "x" * 43
LARGEST_BODY: Final = 1_048_576


async def newer_replaces_older(target: Target) -> None:
    """4509 to the older one; the newer one works on."""
    async with target.client() as client, target.peer(client.token) as older, target.peer(client.token) as newer:
        await older.hello()
        await newer.hello()
        await older.closed(CloseCode.REPLACED)
        await newer.still_open()


async def older_close_changes_nothing(target: Target) -> None:
    """After the older one's end the client is still known as connected."""
    async with target.own_client() as client, target.peer(client.token) as older, target.peer(client.token) as newer:
        await older.hello()
        await newer.hello()
        await older.closed(CloseCode.REPLACED)
        await newer.still_open()
        sync = Sync(id=fresh())
        await newer.send(sync)
        await newer.pages(sync.id)
        response = await target.user_call("GET", CLIENTS, params={"limit": 50})
        mine = [one for one in _items(response) if one.get("id") == client.client_id]
        # Only where the server lists clients at all.
        if mine and "online" in mine[0]:
            expect(mine[0]["online"], "the client is online", "offline by the older connection's end")


def _items(response: httpx.Response) -> list[dict[str, Any]]:
    return response.json().get("items", []) if response.is_success else []


async def revoked_is_closed(target: Target) -> None:
    """4508 within 2 s, and 4501 from then on."""
    async with target.own_client() as client, target.peer(client.token) as peer:
        await peer.hello()
        began = time.monotonic()
        await target.revoke(client)
        await peer.closed(CloseCode.REVOKED)
        took = time.monotonic() - began
        expect(took <= target.pace.revocation, f"within {target.pace.revocation:g} s", f"after {took:.1f} s")
        async with target.peer(client.token) as again:
            await again.closed(CloseCode.UNAUTHENTICATED)


async def revoked_by_rest(target: Target) -> None:
    """A revoked token opens no call."""
    async with target.own_client() as client:
        await target.revoke(client)
        response = await target.task_call(client.token, "lease", {"count": 1})
        expect_problem(response, 401, "unauthorized")


async def rest_needs_a_token(target: Target) -> None:
    """401 without one and with a wrong one."""
    for token in (None, "no-such-token-" + fresh()):
        response = await target.task_call(token, f"{uuid4()}/start", {"lease_token": TOKEN})
        expect_problem(response, 401, "unauthorized")


async def unknown_task(target: Target) -> None:
    """404 for every call."""
    bodies: dict[str, dict[str, Any]] = {
        "start": {"lease_token": TOKEN},
        "extend": {"lease_token": TOKEN},
        "cancel": {"lease_token": TOKEN, "reason": "conformance"},
        "interrupt-ack": {"interrupt_generation": 1},
        "result": {"lease_token": TOKEN, "attempt_id": str(uuid4()), "outcome": "failed", "error": "conformance"},
    }
    async with target.client() as client:
        for call, body in bodies.items():
            for task_id in (str(uuid4()), "no-task"):
                expect_problem(await target.task_call(client.token, f"{task_id}/{call}", body), 404, "not_found")


async def wrong_bodies(target: Target) -> None:
    """422 for wrong and unknown fields and for no JSON, 415 for another content type."""
    path = f"{uuid4()}/start"
    async with target.client() as client:
        for body in (
            {},
            {"lease_token": 7},
            {"lease_token": TOKEN, "phase": "DREAMING"},
            {"lease_token": TOKEN, "x": 1},
        ):
            expect_problem(await target.task_call(client.token, path, body), 422, "invalid_input")
        for content in (b"{", b'{"lease_token":NaN}'):
            response = await target.task_call(client.token, path, content=content)
            expect_problem(response, 422, "malformed_json", "invalid_input")
        response = await target.task_call(client.token, path, content=b"{}", kind="text/plain")
        expect_problem(response, 415, "unsupported_media_type")


async def too_large_a_result(target: Target) -> None:
    """413 over 1 MB."""
    body = {"lease_token": TOKEN, "attempt_id": str(uuid4()), "outcome": "succeeded", "raw": "x" * LARGEST_BODY}
    async with target.client() as client:
        response = await target.task_call(client.token, f"{uuid4()}/result", body)
        expect_problem(response, 413, "payload_too_large")


async def success_without_an_answer(target: Target) -> None:
    """A success needs `raw`."""
    body = {"lease_token": TOKEN, "attempt_id": str(uuid4()), "outcome": "succeeded"}
    async with target.client() as client:
        response = await target.task_call(client.token, f"{uuid4()}/result", body)
        expect_problem(response, 422, "invalid_input")


async def nothing_to_pull(target: Target) -> None:
    """200 with an empty list; 422 for a count out of bounds."""
    async with target.client() as client:
        response = await target.task_call(client.token, "lease", {"count": 1})
        expect(response.status_code == 200, "200", told(response))
        expect(response.json().keys() >= {"tasks", "remaining"}, "tasks and remaining", told(response))
        for count in (0, 65):
            expect_problem(await target.task_call(client.token, "lease", {"count": count}), 422, "invalid_input")


async def old_stream_is_gone(target: Target) -> None:
    """410."""
    response = await target.http.get(f"{target.access.api_url}/api/desktop/events")
    expect(response.status_code == 410, "410", told(response))


CLIENT_RULES = (
    Check("client.replaced", "Connecting", "a newer connection closes the older with 4509", newer_replaces_older),
    Check("client.stays_online", "Connecting", "the older one's end changes nothing", older_close_changes_nothing),
    Check("client.revoked", "Registration", "revocation closes with 4508 within 2 s", revoked_is_closed),
    Check("client.revoked_rest", "Registration", "a revoked token is 401", revoked_by_rest),
    Check("rest.token", "Refusals", "no or a wrong token is 401", rest_needs_a_token),
    Check("rest.unknown_task", "Refusals", "an unknown task is 404", unknown_task),
    Check("rest.bodies", "Refusals", "wrong bodies are 422, other types 415", wrong_bodies),
    Check("rest.too_large", "Refusals", "a result over 1 MB is 413", too_large_a_result),
    Check("rest.no_answer", "Refusals", "a success without raw is 422", success_without_an_answer),
    Check("rest.pull", "The legacy path", "a pull with nothing on offer is empty", nothing_to_pull),
    Check("rest.events", "REST calls", "the old event stream is 410", old_stream_is_gone),
)
