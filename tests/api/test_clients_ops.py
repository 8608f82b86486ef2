"""The fleet over all tenants, for operators: filters, orders, one desktop, totals (2-desktop §2.1)."""

from typing import Any

import pytest

from api.auth import Role
from store.database import Pool
from tests.api.conftest import Caller, Login, problem_of
from tests.support.world import World, ago


@pytest.fixture
def ops(login: Login, world: World) -> Caller:
    return login(world, Role.OPS)


async def ids(ops: Caller, **query: Any) -> list[str]:
    answer = await ops("GET", "/api/ops/clients", params=query)
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


async def test_the_worst_come_first_over_all_tenants_and_pages(ops: Caller, world: World, pool: Pool) -> None:
    other = await World.create(pool, "Other")
    fresh, silent, full, revoked = [await each.client() for each in (world, other, world, other)]
    await world.set("desktop_clients", silent.id, last_heartbeat_at=ago(hours=3))
    await world.set("desktop_clients", revoked.id, last_heartbeat_at=None, revoked_at=ago(hours=1))
    await world.leased(full)
    assert (await ids(ops, sort="silence"))[0] == str(silent.id)
    assert (await ids(ops, sort="queue_depth"))[0] == str(full.id)
    # Who is gone for good is the most silent of all, and nobody's concern.
    assert str(revoked.id) not in await ids(ops, sort="silence")
    assert await ids(ops, sort="silence", state="revoked") == [str(revoked.id)]
    page = (await ops("GET", "/api/ops/clients", params={"sort": "silence", "limit": 1})).json()
    rest = await ids(ops, sort="silence", cursor=page["next_cursor"])
    assert [page["items"][0]["id"], *rest] == await ids(ops, sort="silence")
    # A cursor of one order means nothing in another.
    problem_of(await ops("GET", "/api/ops/clients", params={"sort": "abort_rate", "cursor": page["next_cursor"]}), 422)
    assert await ids(ops, tenant_id=other.tenant_id, state="lost") == [str(silent.id)]
    assert fresh.id


async def test_one_desktop_shows_hub_epoch_and_history_with_the_etag_of_its_limits(ops: Caller, world: World) -> None:
    client = await world.client()
    path = f"/api/ops/clients/{client.id}"
    limits = {"max_concurrent": 3, "max_queue_depth": None, "paused": True}
    assert (await ops("PUT", path, json=limits, headers={"If-Match": '"1"'})).status_code == 200
    await world.set("desktop_clients", client.id, hub="hub-a")
    answer = await ops("GET", path)
    found = answer.json()
    assert answer.headers["etag"] == '"2"'
    assert (found["state"], found["hub"], found["slots_limit"], found["slots_from"]) == (
        "paused",
        "hub-a",
        3,
        "operator",
    )
    [event] = found["history"]
    assert event["detail"]["changed"] == {"max_concurrent": [None, 3], "paused": [False, True]}
    assert found["version"] == 2


async def test_totals_are_of_all_tenants_or_of_one(ops: Caller, world: World, pool: Pool) -> None:
    other = await World.create(pool, "Other")
    client = await world.client()
    await other.client(online=False)
    await world.set("desktop_clients", client.id, platform_sessions={"qwen": "blocked"}, version="1.2", hub="hub-a")
    everything = (await ops("GET", "/api/ops/fleet")).json()
    assert everything["states"] == {"online": 1, "paused": 0, "offline": 1, "lost": 0, "revoked": 0}
    assert (everything["versions"], everything["hubs"]) == ({"1.2": 1}, {"hub-a": 1})
    assert everything["logins"] == {"qwen": {"blocked": 1}}
    assert (everything["slots_used"], everything["slots_total"]) == (0, 2)
    of_other = (await ops("GET", "/api/ops/fleet", params={"tenant_id": other.tenant_id})).json()
    assert (of_other["states"]["online"], of_other["states"]["offline"]) == (0, 1)
