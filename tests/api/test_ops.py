"""The ops API: for operators alone, paged and bounded lists, releases that are audited (6-operations, Control)."""

from typing import Any
from uuid import uuid4

import pytest
from fastapi import FastAPI

from api.auth import Role
from domain.ids import new_uuid
from store.database import Pool
from tests.api.conftest import Caller, Login, problem_of
from tests.api.routes import operations, sound_body
from tests.support.world import World


@pytest.fixture
def ops(login: Login, world: World) -> Caller:
    return login(world, Role.OPS)


def filled() -> dict[str, Any]:
    return {
        "key": "retry_low_water", "platform": "qwen", "tenant_id": 1, "client_id": uuid4(), "task_id": uuid4(),
        "kind": "lane",
    }  # fmt: skip


async def test_nobody_but_ops_reaches_any_of_it(app: FastAPI, login: Login, world: World) -> None:
    tried = 0
    for operation in operations(app):
        if not operation.path.startswith("/api/ops/"):
            continue
        for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN):
            response = await login(world, role)(
                operation.method,
                operation.filled(filled()),
                json=sound_body(operation, world),
                headers={"If-Match": '"0"'},
            )
            assert problem_of(response, 403)["code"] == "forbidden", operation
            tried += 1
    assert tried > 40


async def pages(ops: Caller, path: str, limit: int = 2) -> list[dict[str, Any]]:
    """Every item, over all pages."""
    items: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        given = {"limit": limit, **({"cursor": cursor} if cursor else {})}
        answer = await ops("GET", path, params=given)
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["items"]) <= limit
        items += answer.json()["items"]
        cursor = answer.json()["next_cursor"]
        if cursor is None:
            return items


async def test_clients_are_listed_over_all_tenants_with_their_load(ops: Caller, world: World, pool: Pool) -> None:
    other = await World.create(pool, "Other")
    busy = await world.client()
    idle = [await other.client(), await other.client(online=False)]
    running = await world.leased(busy, status="in_progress")
    await world.leased(busy)
    await world.interrupt(running.task_id, await world.request(client_id=busy.id), 2)
    items = await pages(ops, "/api/ops/clients")
    assert [item["id"] for item in items] == [str(each.id) for each in (idle[1], idle[0], busy)]
    load = {key: items[2][key] for key in ("tenant_id", "running", "queued", "unknown", "high", "giving_way")}
    assert load == {
        "tenant_id": world.tenant_id, "running": 1, "queued": 1, "unknown": 0, "high": 0, "giving_way": 1,
    }  # fmt: skip
    online = (await ops("GET", "/api/ops/clients", params={"online": True, "tenant_id": other.tenant_id})).json()
    assert [item["id"] for item in online["items"]] == [str(idle[0].id)]


async def test_requests_batches_tenants_and_residents_are_listed(ops: Caller, world: World, pool: Pool) -> None:
    other = await World.create(pool, "Other")
    requests = [await world.request(), await other.request(status="succeeded"), await world.request()]
    assert [item["id"] for item in await pages(ops, "/api/ops/requests")] == [str(each) for each in reversed(requests)]
    open_ones = (await ops("GET", "/api/ops/requests", params={"open": True})).json()["items"]
    assert [item["id"] for item in open_ones] == [str(requests[2]), str(requests[0])]
    batches = [await world.batch(), await other.batch(status="completed"), await world.batch()]
    assert [item["id"] for item in await pages(ops, "/api/ops/batches")] == list(reversed(batches))
    assert len((await ops("GET", "/api/ops/batches", params={"open": True})).json()["items"]) == 2
    assert [item["id"] for item in await pages(ops, "/api/ops/tenants", limit=1)] == [world.tenant_id, other.tenant_id]
    await pool.execute("insert into resident_leases (name, epoch, holder) values ('presence/0', 3, 'host:1')")
    [resident] = (await ops("GET", "/api/ops/residents")).json()["items"]
    assert (resident["name"], resident["epoch"], resident["holder"]) == ("presence/0", 3, "host:1")


async def test_the_audit_shows_who_changed_what(ops: Caller, world: World) -> None:
    for version, weight in enumerate((2, 3, 4), start=1):
        body = {"fair_weight": weight, "dispatch_per_minute": None, "paused": False}
        await ops("PUT", f"/api/ops/tenants/{world.tenant_id}", json=body, headers={"If-Match": f'"{version}"'})
    await ops("PUT", "/api/ops/settings/retry_low_water", json={"value": 9}, headers={"If-Match": '"0"'})
    items = await pages(ops, "/api/ops/audit")
    assert [item["action"] for item in items] == ["setting_changed", *["tenant_changed"] * 3]
    assert {item["actor"] for item in items} == {"user:7"}
    [newest] = (await ops("GET", "/api/ops/audit", params={"action": "tenant_changed", "limit": 1})).json()["items"]
    assert newest["detail"]["after"]["fair_weight"] == 4
    mine = (await ops("GET", "/api/ops/audit", params={"tenant_id": world.tenant_id})).json()["items"]
    assert len(mine) == 3


# --- pauses ------------------------------------------------------------------------------------------------------


async def test_lane_tenant_platform_and_client_are_paused_listed_and_resumed(
    ops: Caller, world: World, pool: Pool
) -> None:
    client = await world.client()
    targets = [("client", str(client.id)), ("lane", "normal"), ("platform", "qwen"), ("tenant", str(world.tenant_id))]
    for kind, key in targets:
        done = await ops("POST", "/api/ops/pauses", json={"kind": kind, "key": key})
        assert done.json() == {"kind": kind, "key": key, "changed": True, "taken_back": 0}
    listed = (await ops("GET", "/api/ops/pauses")).json()
    assert [(item["kind"], item["key"]) for item in listed["items"]] == targets
    assert listed["more"] is False
    for kind, key in targets:
        assert (await ops("DELETE", f"/api/ops/pauses/{kind}/{key}")).json()["changed"] is True
        assert (await ops("DELETE", f"/api/ops/pauses/{kind}/{key}")).json()["changed"] is False
    assert (await ops("GET", "/api/ops/pauses")).json()["items"] == []
    actions = await pool.fetch("select action, actor from audit_events order by id limit 5")
    assert [tuple(row) for row in actions] == [*[("paused", "user:7")] * 4, ("resumed", "user:7")]


async def test_a_drain_takes_back_what_has_not_started_and_leaves_what_runs(ops: Caller, world: World) -> None:
    client = await world.client()
    waiting, running = await world.leased(client), await world.leased(client, status="in_progress", platform="doubao")
    body = {"kind": "client", "key": str(client.id), "drain": True}
    assert (await ops("POST", "/api/ops/pauses", json=body)).json()["taken_back"] == 1
    assert (await world.execution(waiting.task_id))["status"] == "aborted"
    assert (await world.execution(running.task_id))["status"] == "in_progress"


@pytest.mark.parametrize(
    ("kind", "key", "status"),
    [
        ("lane", "urgent", 422),
        ("lane", "nothing", 422),
        ("tenant", "abc", 422),
        ("tenant", "999999", 404),
        ("platform", "nobody", 404),
        ("client", "nobody", 422),
        ("client", "00000000-0000-7000-8000-000000000000", 404),
    ],
)
async def test_what_cannot_be_paused_is_refused(ops: Caller, kind: str, key: str, status: int) -> None:
    assert problem_of(await ops("POST", "/api/ops/pauses", json={"kind": kind, "key": key}), status)
    assert problem_of(await ops("DELETE", f"/api/ops/pauses/{kind}/{key}"), status)


async def test_a_pause_makes_a_version_that_was_read_before_stale(ops: Caller, world: World) -> None:
    await ops("POST", "/api/ops/pauses", json={"kind": "tenant", "key": str(world.tenant_id)})
    body = {"fair_weight": 1, "dispatch_per_minute": None, "paused": False}
    path = f"/api/ops/tenants/{world.tenant_id}"
    assert problem_of(await ops("PUT", path, json=body, headers={"If-Match": '"1"'}), 412)


# --- force release -----------------------------------------------------------------------------------------------


async def test_a_running_task_is_released_as_at_a_hard_timeout(ops: Caller, world: World, pool: Pool) -> None:
    client = await world.client()
    request = await world.request(client_id=client.id)
    lease = await world.leased(client, status="in_progress")
    await world.interrupt(lease.task_id, request, 2)
    answer = await ops("POST", f"/api/ops/tasks/{lease.task_id}/force-release")
    assert (answer.status_code, answer.json()["status"]) == (200, "unknown")
    row = await world.execution(lease.task_id)
    assert (row["status"], row["lease_token_hash"]) == ("unknown", None)
    assert (await world.attempt(lease.attempt_id))["outcome"] == "revoked"
    assert (await world.business(lease.business_id))["dispatch_attempts"] == 0
    assert (await world.row("monitoring_collect_requests", request))["interrupt_settled_count"] == 1
    [told] = await world.outbox("task_control")
    assert (told["payload"]["control"], told["payload"]["reason"]) == ("canceled", "force_released")
    [event] = await pool.fetch("select * from audit_events where action = 'task_force_released'")
    assert (event["actor"], event["tenant_id"], event["detail"]["was"]) == ("user:7", world.tenant_id, "in_progress")


async def test_a_waiting_task_goes_back_to_the_queue(ops: Caller, world: World) -> None:
    lease = await world.leased(await world.client())
    answer = await ops("POST", f"/api/ops/tasks/{lease.task_id}/force-release")
    assert answer.json()["status"] == "aborted"
    business = await world.business(lease.business_id)
    assert (business["status"], business["active_task_id"], business["dispatch_attempts"]) == ("pending", None, 0)


async def test_a_task_without_a_lease_is_not_released_and_a_missing_one_is_missing(ops: Caller, world: World) -> None:
    lease = await world.leased(await world.client(), status="in_progress")
    path = f"/api/ops/tasks/{lease.task_id}/force-release"
    await ops("POST", path)
    assert problem_of(await ops("POST", path), 409)["code"] == "conflict"
    assert problem_of(await ops("POST", f"/api/ops/tasks/{new_uuid()}/force-release"), 404)
    assert len(await world.outbox("task_control")) == 1


# --- runs now ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["reconcile", "tune"])
async def test_a_schedule_that_no_worker_has_made_yet_is_503(ops: Caller, what: str) -> None:
    assert problem_of(await ops("POST", f"/api/ops/{what}"), 503)["code"] == "dispatch_unavailable"
