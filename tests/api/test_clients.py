"""Desktops as their tenant manages them: filters, pages, one in detail, names, tokens, revocation (2-desktop §2.1)."""

from typing import Any
from uuid import uuid4

import pytest

from api.auth import Role
from store.clients import authenticate_device
from store.database import Pool, transaction
from store.settings import write_dispatch_setting
from tests.api.conftest import Caller, Login, problem_of
from tests.support.world import World

CLIENTS = "/api/desktop/clients"


async def items(call: Caller, **query: Any) -> list[dict[str, Any]]:
    answer = await call("GET", CLIENTS, params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


async def test_a_list_is_paged_by_key_so_that_a_new_desktop_moves_nothing(call: Caller, world: World) -> None:
    made = [str((await world.client()).id) for _ in range(5)]
    first = (await call("GET", CLIENTS, params={"limit": 2})).json()
    await world.client()
    second = (await call("GET", CLIENTS, params={"limit": 3, "cursor": first["next_cursor"]})).json()
    assert [item["id"] for item in first["items"] + second["items"]] == list(reversed(made))
    assert second["next_cursor"] is None


@pytest.mark.parametrize("cursor", ["x", "WzJd", "WyJuZXdlc3QiLDEsIngiXQ", "WyJzaWxlbmNlIixudWxsLCJ4Il0"])
async def test_a_cursor_that_is_none_of_ours_is_refused(call: Caller, cursor: str) -> None:
    assert problem_of(await call("GET", CLIENTS, params={"cursor": cursor}), 422)["code"] == "invalid_input"


async def test_a_list_is_filtered_by_state_login_and_workspace(login: Login, call: Caller, world: World) -> None:
    fine, broken, away = [await world.client() for _ in range(3)]
    await world.set("desktop_clients", broken.id, platform_sessions={"qwen": "login_required"})
    await world.set("desktop_clients", away.id, online=False, last_heartbeat_at=None)
    for query, expected in (
        ({"state": "online"}, {fine, broken}),
        ({"state": "offline"}, {away}),
        ({"platform": "qwen", "login": "login_required"}, {broken}),
        ({"login": "login_required"}, {broken}),
        ({"workspace_id": world.workspace_id}, {fine, broken, away}),
    ):
        assert {item["id"] for item in await items(call, **query)} == {str(each.id) for each in expected}, query
    problem_of(await call("GET", CLIENTS, params={"workspace_id": world.workspace_id + 1}), 404)
    problem_of(await call("GET", CLIENTS, params={"state": "asleep"}), 422)
    assert await items(login(world, workspaces=[world.workspace_id + 1])) == []


async def test_one_desktop_shows_state_load_tasks_and_history(call: Caller, world: World) -> None:
    client = await world.client(max_concurrent=2)
    lease = await world.leased(client, status="in_progress")
    await call("PATCH", f"{CLIENTS}/{client.id}", json={"name": "front desk"})
    found = (await call("GET", f"{CLIENTS}/{client.id}")).json()
    shown = {name: found[name] for name in ("name", "state", "slots_used", "slots_limit", "slots_from", "phases")}
    assert shown == {
        "name": "front desk", "state": "online", "slots_used": 1, "slots_limit": 2, "slots_from": "desktop",
        "phases": ["PREPARING"],
    }  # fmt: skip
    [task] = found["tasks"]
    assert (task["task_id"], task["phase"], task["phase_since"] is not None) == (str(lease.task_id), "PREPARING", True)
    [event] = found["history"]
    assert (event["kind"], event["detail"]["actor"]) == ("settings_changed", "user:7")
    assert (await call("GET", f"{CLIENTS}/{client.id}", params={"events": 0})).json()["history"] == []


async def test_a_new_token_is_told_once_and_the_old_one_is_nobodys(call: Caller, world: World, pool: Pool) -> None:
    client = await world.client()
    rotated = await call("POST", f"{CLIENTS}/{client.id}/token")
    assert (rotated.status_code, rotated.headers["cache-control"]) == (200, "no-store")
    body = rotated.json()
    assert body["client_id"] == str(client.id)
    assert body["ws_url"].endswith("/api/desktop/ws")
    assert await authenticate_device(pool, client.token) is None
    assert await authenticate_device(pool, body["token"]) is not None
    old = {"Authorization": f"Bearer {client.token}"}
    problem_of(
        await call("POST", f"/api/desktop/tasks/{uuid4()}/start", json={"lease_token": "x" * 40}, headers=old), 401
    )
    assert body["token"] not in (await call("GET", f"{CLIENTS}/{client.id}")).text


async def test_revoking_is_idempotent_and_for_good(call: Caller, world: World) -> None:
    client = await world.client()
    for _ in range(2):
        assert (await call("DELETE", f"{CLIENTS}/{client.id}")).status_code == 204
    problem_of(await call("POST", f"{CLIENTS}/{client.id}/token"), 409)
    problem_of(await call("PATCH", f"{CLIENTS}/{client.id}", json={"name": "x"}), 409)
    [found] = await items(call)
    assert (found["state"], found["online"], found["revoked_at"] is not None) == ("revoked", False, True)


async def test_a_desktop_of_a_workspace_that_the_token_does_not_open_is_missing(login: Login, world: World) -> None:
    client = await world.client()
    stranger = login(world, Role.ADMIN, workspaces=[world.workspace_id + 1])
    path = f"{CLIENTS}/{client.id}"
    for method, where, body in (
        ("GET", path, None), ("PATCH", path, {"name": "mine"}), ("POST", f"{path}/token", None), ("DELETE", path, None),
    ):  # fmt: skip
        assert problem_of(await stranger(method, where, json=body), 404)["code"] == "not_found"


async def test_viewers_look_and_change_nothing(login: Login, world: World) -> None:
    client = await world.client()
    viewer = login(world, Role.VIEWER)
    assert (await viewer("GET", f"{CLIENTS}/{client.id}")).status_code == 200
    for method, path in (("PATCH", ""), ("POST", "/token"), ("DELETE", "")):
        problem_of(await viewer(method, f"{CLIENTS}/{client.id}{path}", json={"name": "x"}), 403)


@pytest.mark.parametrize("name", ["", "   ", "x" * 201, 5, None, "a\0b"])
async def test_a_name_is_bounded_text(call: Caller, world: World, name: Any) -> None:
    client = await world.client()
    problem_of(await call("PATCH", f"{CLIENTS}/{client.id}", json={"name": name}), 422)
    problem_of(await call("POST", CLIENTS, json={"workspace_id": world.workspace_id, "name": name}), 422)


async def test_over_the_tenants_limit_registration_says_so(call: Caller, world: World, pool: Pool) -> None:
    async with transaction(pool) as connection:
        await write_dispatch_setting(connection, "clients_per_tenant", 1, actor="test")
    new = {"workspace_id": world.workspace_id, "name": "mac"}
    assert (await call("POST", CLIENTS, json=new)).status_code == 201
    assert problem_of(await call("POST", CLIENTS, json=new), 409)["code"] == "too_many_clients"
    [made] = await items(call)
    await call("DELETE", f"{CLIENTS}/{made['id']}")
    refused = problem_of(await call("POST", CLIENTS, json=new), 429)
    assert refused["retry_after"] > 0
