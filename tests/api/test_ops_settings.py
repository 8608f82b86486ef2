"""Hot settings and limits through the ops API: versioned, under fuses, audited, in force at once (1-dispatch §1.3)."""

import asyncio
from typing import Any

import pytest

from activities.coordinator import Coordinator
from api.auth import Role
from domain.dispatch_settings import FUSE_KEYS, KEYS
from store import residents
from store.database import Pool, transaction
from store.listen import Listener
from store.settings import read_dispatch_settings, write_fuse
from tests.api.conftest import Caller, Login, problem_of
from tests.support.world import World

SETTING = "/api/ops/settings/cluster_per_minute"


@pytest.fixture
def ops(login: Login, world: World) -> Caller:
    return login(world, Role.OPS)


async def put(ops: Caller, path: str, body: dict[str, Any], version: int | str) -> Any:
    return await ops("PUT", path, json=body, headers={"If-Match": f'"{version}"'})


async def audited(pool: Pool, action: str) -> list[dict[str, Any]]:
    rows = await pool.fetch(
        "select actor, subject, tenant_id, detail from audit_events where action = $1 order by id", action
    )
    return [dict(row) for row in rows]


async def test_every_setting_is_shown_with_default_fuse_and_version(ops: Caller) -> None:
    answer = await ops("GET", "/api/ops/settings")
    shown = answer.json()
    assert (answer.headers["etag"], shown["version"]) == ('"0"', 0)
    assert [each["key"] for each in shown["settings"]] == list(KEYS)
    assert [each["key"] for each in shown["fuses"]] == list(FUSE_KEYS)
    cluster = shown["settings"][0]
    assert (cluster["value"], cluster["default"], cluster["fuse"], cluster["version"]) == (300, 300, 500, 0)


async def test_a_change_names_the_version_it_changes_and_is_audited(ops: Caller, pool: Pool) -> None:
    first = await put(ops, SETTING, {"value": 200}, 0)
    assert (first.status_code, first.headers["etag"], first.json()["value"]) == (200, '"1"', 200)
    second = await put(ops, SETTING, {"value": 250}, 1)
    assert (second.headers["etag"], second.json()["updated_by"]) == ('"2"', "user:7")
    assert [event["detail"] for event in await audited(pool, "setting_changed")] == [
        {"before": None, "after": 200},
        {"before": 200, "after": 250},
    ]


async def test_a_change_without_a_version_is_428_and_a_stale_one_412_and_changes_nothing(
    ops: Caller, pool: Pool
) -> None:
    assert problem_of(await ops("PUT", SETTING, json={"value": 1}), 428)["code"] == "version_required"
    await put(ops, SETTING, {"value": 200}, 0)
    for version in ("0", "2", "x"):
        assert problem_of(await put(ops, SETTING, {"value": 1}, version), 412)["code"] == "stale_version"
    assert (await ops("GET", SETTING)).json()["value"] == 200
    assert len(await audited(pool, "setting_changed")) == 1


async def test_two_operators_who_read_the_same_version_do_not_overwrite_each_other(ops: Caller) -> None:
    answers = await asyncio.gather(*(put(ops, SETTING, {"value": value}, 0) for value in (100, 200, 290)))
    assert sorted(answer.status_code for answer in answers) == [200, 412, 412]


async def test_over_a_fuse_is_refused_with_its_name_and_a_raised_fuse_lets_it_in(ops: Caller, pool: Pool) -> None:
    problem = problem_of(await put(ops, SETTING, {"value": 501}, 0), 422)
    assert (problem["code"], problem["fuse"], problem["limit"]) == ("over_fuse", "cluster_per_minute", 500)
    async with transaction(pool) as connection:
        await write_fuse(connection, "cluster_per_minute", 1000, actor="test")
    assert (await put(ops, SETTING, {"value": 501}, 0)).status_code == 200


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cluster_per_minute", -1),
        ("cluster_per_minute", "many"),
        ("cluster_per_minute", 1.5),
        ("preempt_policy", "some"),
        ("paused_lanes", "normal"),
        ("paused_lanes", ["urgent"]),
        ("coordinator_shards", 0),
        ("retry_low_water", 10**30),
    ],
)
async def test_a_value_that_is_none_is_refused(ops: Caller, key: str, value: Any) -> None:
    assert problem_of(await put(ops, f"/api/ops/settings/{key}", {"value": value}, 0), 422)["code"] == "invalid_input"


async def test_a_setting_that_does_not_exist_is_missing_and_fuses_are_not_settable(ops: Caller) -> None:
    assert problem_of(await put(ops, "/api/ops/settings/no_such", {"value": 1}, 0), 404)
    assert problem_of(await put(ops, "/api/ops/settings/fuses", {"value": 1}, 0), 404)


async def test_several_settings_are_changed_together_or_not_at_all(ops: Caller) -> None:
    refused = {"values": {"retry_low_water": 10, "cluster_per_minute": 501}}
    assert problem_of(await put(ops, "/api/ops/settings", refused, 0), 422)["fuse"] == "cluster_per_minute"
    good = {"values": {"retry_low_water": 10, "preempt_policy": "needed"}}
    changed = await put(ops, "/api/ops/settings", good, 0)
    assert changed.json()["version"] == 2
    assert problem_of(await put(ops, "/api/ops/settings", good, 0), 412)
    values = {each["key"]: each["value"] for each in (await ops("GET", "/api/ops/settings")).json()["settings"]}
    assert (values["retry_low_water"], values["preempt_policy"], values["cluster_per_minute"]) == (10, "needed", 300)


async def test_a_soft_timeout_over_the_hard_one_is_refused_alone_and_both_may_change_together(ops: Caller) -> None:
    path, soft, hard = "/api/ops/settings", "interrupt_soft_timeout_ms", "interrupt_hard_timeout_ms"
    assert problem_of(await put(ops, f"{path}/{soft}", {"value": 60_000}, 0), 422)["code"] == "invalid_input"
    assert problem_of(await put(ops, path, {"values": {hard: 10_000}}, 0), 422)["code"] == "invalid_input"
    assert (await put(ops, path, {"values": {soft: 60_000, hard: 120_000}}, 0)).status_code == 200


async def test_a_change_is_in_force_in_the_next_transaction_of_every_reader(ops: Caller, pool: Pool) -> None:
    await put(ops, "/api/ops/settings/active_requests_per_tenant", {"value": 1}, 0)
    async with transaction(pool) as connection:
        assert (await read_dispatch_settings(connection)).active_requests_per_tenant == 1


async def test_the_next_accept_obeys_a_change(ops: Caller, call: Caller, world: World) -> None:
    await world.plan()
    await world.question()
    await put(ops, "/api/ops/settings/active_requests_per_tenant", {"value": 0}, 0)
    click = f"/api/tenant/monitoring/brands/{world.brand_id}/collect-now"
    assert problem_of(await call("POST", click, json={}), 429)["code"] == "too_many_requests"
    await put(ops, "/api/ops/settings/active_requests_per_tenant", {"value": 1}, 1)
    assert (await call("POST", click, json={})).status_code == 202


async def test_a_running_coordinator_obeys_a_change_without_waiting_for_its_next_look(
    ops: Caller, pool: Pool, database_url: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activities.coordinator.FALLBACK_SECONDS", 600.0)
    await put(ops, "/api/ops/settings/paused_lanes", {"value": ["normal"]}, 0)
    await world.client()
    task = await world.business_task()
    name = "coordinator/0"
    epoch = await residents.take(pool, name, "test")
    async with Listener(database_url) as listener:
        await listener.ready.wait()
        coordinator = Coordinator(pool, listener)
        await coordinator.dispatch_all(name, epoch)
        assert (await world.business(task))["active_task_id"] is None
        running = asyncio.create_task(coordinator.run(name, epoch))
        try:
            await put(ops, "/api/ops/settings/paused_lanes", {"value": []}, 1)
            async with asyncio.timeout(20):
                while (await world.business(task))["active_task_id"] is None:
                    await asyncio.sleep(0.02)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


# --- platforms, tenants, clients ---------------------------------------------------------------------------------


async def test_a_platforms_limits_are_replaced_and_given_timeouts_are_pinned(ops: Caller, pool: Pool) -> None:
    path = "/api/ops/platforms/qwen"
    read = await ops("GET", path)
    assert (read.headers["etag"], read.json()["timeouts_pinned"]) == ('"0"', False)
    body = {
        "max_concurrent": 2,
        "interrupt_soft_timeout_ms": 20_000,
        "interrupt_hard_timeout_ms": 60_000,
        "paused": True,
    }
    changed = await put(ops, path, body, 0)
    assert changed.status_code == 200, changed.text
    assert {key: changed.json()[key] for key in body} == body
    assert (changed.headers["etag"], changed.json()["timeouts_pinned"]) == ('"1"', True)
    [event] = await audited(pool, "platform_changed")
    assert (event["subject"], event["detail"]["before"], event["detail"]["after"]) == ("platform qwen", None, body)
    assert problem_of(await put(ops, path, body, 0), 412)
    assert problem_of(await put(ops, path, {**body, "max_concurrent": 3}, 1), 422)["fuse"] == "platform_concurrency"
    slow = {**body, "interrupt_soft_timeout_ms": 60_001}
    assert problem_of(await put(ops, path, slow, 1), 422)["code"] == "invalid_input"
    assert problem_of(await put(ops, "/api/ops/platforms/nobody", body, 0), 404)


async def test_timeouts_that_were_measured_stay_unpinned_when_something_else_changes(ops: Caller) -> None:
    read = await ops("GET", "/api/ops/platforms/google")
    kept = {key: read.json()[key] for key in ("interrupt_soft_timeout_ms", "interrupt_hard_timeout_ms")}
    changed = await put(
        ops,
        "/api/ops/platforms/google",
        {**kept, "max_concurrent": 2, "paused": False},
        read.headers["etag"].strip('"'),
    )
    assert (changed.json()["max_concurrent"], changed.json()["timeouts_pinned"]) == (2, False)


async def test_a_tenants_share_and_budget_are_replaced(ops: Caller, pool: Pool, world: World) -> None:
    path = f"/api/ops/tenants/{world.tenant_id}"
    body = {"fair_weight": 3, "dispatch_per_minute": 50, "paused": True}
    changed = await put(ops, path, body, 1)
    assert {key: changed.json()[key] for key in body} == body
    assert changed.headers["etag"] == '"2"'
    [event] = await audited(pool, "tenant_changed")
    before = {"fair_weight": 1, "dispatch_per_minute": None, "paused": False}
    assert (event["tenant_id"], event["detail"]) == (world.tenant_id, {"before": before, "after": body})
    assert problem_of(await put(ops, path, body, 1), 412)
    over = problem_of(await put(ops, path, {**body, "dispatch_per_minute": 61}, 2), 422)
    assert (over["code"], over["fuse"]) == ("over_fuse", "tenant_per_minute")
    assert problem_of(await put(ops, path, {**body, "fair_weight": 0}, 2), 422)
    assert problem_of(await put(ops, "/api/ops/tenants/999999", body, 1), 404)


async def test_a_clients_limits_are_replaced_and_outlast_what_the_desktop_says(
    ops: Caller, pool: Pool, world: World
) -> None:
    desktop = await world.client()
    path = f"/api/ops/clients/{desktop.id}"
    body = {"max_concurrent": 3, "max_queue_depth": 30, "paused": False}
    changed = await put(ops, path, body, 1)
    assert changed.status_code == 200, changed.text
    assert {key: changed.json()[key] for key in body} == body
    row = await world.row("desktop_clients", desktop.id)
    assert (row["slots_pinned"], row["settings_version"]) == (True, 2)
    [event] = await audited(pool, "client_changed")
    assert event["detail"]["before"] == {"max_concurrent": None, "max_queue_depth": None, "paused": False}
    assert problem_of(await put(ops, path, {**body, "max_concurrent": 5}, 2), 422)["fuse"] == "client_concurrency"
    assert problem_of(await put(ops, path, {**body, "max_queue_depth": 41}, 2), 422)["fuse"] == "client_queue_depth"
    assert problem_of(await put(ops, path, body, 1), 412)
