"""The fleet as people see it: one state each, load, logins, rates, pages, totals (2-desktop §2.1)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from domain.dispatch_settings import DispatchSettings, Fuses
from domain.errors import Conflict, InvalidInput, NotFound
from domain.ids import new_uuid
from domain.phases import Phase
from store import clients, fleet
from store.database import Pool
from store.fleet import After, ClientState, FleetFilter, Sort, slots_of
from tests.support.legacy import LegacyHands
from tests.support.world import Desktop, Lease, World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


async def listed(world: World, which: FleetFilter | None = None, **given: Any) -> list[dict[str, Any]]:
    async with world.pool.acquire() as connection:
        return await fleet.list_clients(connection, which or FleetFilter(), **given)


async def one(world: World, client: Desktop) -> dict[str, Any]:
    async with world.pool.acquire() as connection:
        return await fleet.read_client(connection, client.id)


async def in_phase(world: World, client: Desktop, phase: str, platform: str = "qwen") -> Lease:
    """A running task that has come into this phase."""
    lease = await world.leased(client, status="in_progress", platform=platform)
    await world.set("desktop_tasks", lease.task_id, phase=phase)
    return lease


async def ended(world: World, client: Desktop, *outcomes: str, seconds: float = 600) -> None:
    """Attempts of the client that ended so, so long ago."""
    business = await world.business_task()
    await world.pool.executemany(
        "insert into desktop_task_attempts (id, tenant_id, monitor_task_id, client_id, attempt, token_hash, ended_at,"
        " outcome, error) values ($1, $2, $3, $4, 1, '', $5, $6, $7)",
        [
            (new_uuid(), world.tenant_id, business, client.id, ago(seconds=seconds), outcome, f"it was {outcome}")
            for outcome in outcomes
        ],
    )


# --- the state ---------------------------------------------------------------------------------------------------


async def test_the_state_is_one_of_five_with_the_time_since_when(world: World) -> None:
    cases: dict[ClientState, list[tuple[dict[str, Any], str]]] = {
        ClientState.ONLINE: [({"connected_at": ago(minutes=9)}, "connected_at")],
        ClientState.PAUSED: [
            ({"paused": True, "paused_at": ago(minutes=1), "connected_at": ago(minutes=9)}, "paused_at"),
            ({"paused": True, "paused_at": ago(minutes=9), "connected_at": ago(minutes=1)}, "connected_at"),
        ],
        ClientState.OFFLINE: [
            ({"online": False, "last_heartbeat_at": None}, "created_at"),
            # Away for less than 30 s, however it went.
            ({"online": False, "disconnected_at": ago(seconds=9), "last_close_code": 1006}, "disconnected_at"),
            # It said goodbye, and has been lost to the sweeper since.
            (
                {
                    "online": False,
                    "last_heartbeat_at": ago(hours=2),
                    "lost_at": ago(hours=1),
                    "connected_at": ago(hours=3),
                    "disconnected_at": ago(hours=2),
                    "last_close_code": 1000,
                },
                "disconnected_at",
            ),
        ],
        ClientState.LOST: [
            ({"online": False, "last_heartbeat_at": ago(hours=2), "lost_at": ago(hours=1)}, "lost_at"),
            # A goodbye of an earlier connection says nothing of this one.
            (
                {
                    "online": False,
                    "last_heartbeat_at": ago(hours=2),
                    "lost_at": ago(hours=1),
                    "connected_at": ago(hours=3),
                    "disconnected_at": ago(hours=4),
                    "last_close_code": 1000,
                },
                "lost_at",
            ),
        ],
        ClientState.REVOKED: [({"revoked_at": ago(hours=1), "paused": True}, "revoked_at")],
    }
    for state, rows in cases.items():
        for columns, since in rows:
            client = await world.client()
            await world.set("desktop_clients", client.id, **columns)
            found, row = await one(world, client), await world.row("desktop_clients", client.id)
            assert (found["state"], found["since"]) == (state, row[since]), columns
            assert found["online"] == (state in (ClientState.ONLINE, ClientState.PAUSED))


async def test_who_is_silent_is_lost_before_any_sweeper_has_noticed(world: World) -> None:
    client = await world.client()
    await world.set("desktop_clients", client.id, last_heartbeat_at=ago(seconds=31))
    assert (await one(world, client))["state"] == ClientState.LOST


# --- load --------------------------------------------------------------------------------------------------------


async def test_load_slots_and_rates_are_shown_and_a_disagreement_with_the_desktop(world: World) -> None:
    client = await world.client(max_concurrent=3)
    running = await in_phase(world, client, "WAITING")
    await world.leased(client, status="unknown", platform="kimi")
    await world.leased(client, platform="doubao")
    await world.interrupt(running.task_id, await world.request(client_id=client.id), 2)
    await ended(world, client, "succeeded", "succeeded", "failed", "returned", "preempted")
    await ended(world, client, "succeeded", "revoked", seconds=30)
    await ended(world, client, "lease_expired", seconds=3700)
    found = await one(world, client)
    counts = {name: found[name] for name in ("running", "queued", "unknown", "giving_way", "slots_used", "phases")}
    assert counts == {
        "running": 1, "queued": 1, "unknown": 1, "giving_way": 1, "slots_used": 2, "phases": ["WAITING"],
    }  # fmt: skip
    assert (found["slots_limit"], found["slots_from"]) == (3, "desktop")
    assert (found["ended"], found["abort_rate"], found["abort_rate_minute"]) == (7, pytest.approx(2 / 7), 0.5)
    assert found["success_rate"] == pytest.approx(3 / 6)
    assert not found["disagrees"]
    await world.set("desktop_clients", client.id, reported_running=2, reported_queued=1)
    assert not (await one(world, client))["disagrees"]
    await world.set("desktop_clients", client.id, reported_running=0)
    assert (await one(world, client))["disagrees"]
    # What it said before it left is no disagreement.
    await world.set("desktop_clients", client.id, online=False)
    assert not (await one(world, client))["disagrees"]


async def test_a_desktop_that_has_ended_nothing_has_no_rate_of_success(world: World) -> None:
    found = await one(world, await world.client())
    assert (found["abort_rate"], found["success_rate"], found["ended"]) == (0, None, 0)


@pytest.mark.parametrize(
    ("own", "pinned", "expected"),
    [(None, False, (2, "setting")), (3, False, (3, "desktop")), (3, True, (3, "operator")), (9, True, (4, "fuse"))],
)
def test_the_limit_of_slots_names_who_set_it(own: int | None, pinned: bool, expected: tuple[int, str]) -> None:
    assert slots_of(own, pinned=pinned, settings=DispatchSettings()) == expected


def test_a_setting_over_its_fuse_is_the_fuses() -> None:
    settings = replace(DispatchSettings(), fuses=Fuses(client_concurrency=1))
    assert slots_of(None, pinned=False, settings=settings) == (1, "fuse")


# --- one desktop -------------------------------------------------------------------------------------------------


async def test_a_task_shows_its_phase_and_since_when(world: World) -> None:
    client = await world.client()
    lease = await in_phase(world, client, Phase.INPUTTING.value)
    waiting = await world.leased(client, platform="doubao")
    await world.set("desktop_tasks", lease.task_id, phase=Phase.WAITING.value)
    entered = (await world.execution(lease.task_id))["phase_since"]
    # The same phase again is no new one.
    await world.set("desktop_tasks", lease.task_id, phase=Phase.WAITING.value)
    async with world.pool.acquire() as connection:
        found = await fleet.read_detail(connection, client.id)
    assert entered is not None
    tasks = {task["task_id"]: task for task in found["tasks"]}
    shown = tasks[str(lease.task_id)]
    assert (shown["phase"], shown["phase_since"], shown["status"]) == ("WAITING", entered, "in_progress")
    assert tasks[str(waiting.task_id)]["lane"] == "normal"


async def test_legacy_work_is_among_the_tasks_by_its_own_id(world: World) -> None:
    hands = LegacyHands(world, await world.client())
    task = await hands.pull_one()
    async with world.pool.acquire() as connection:
        [shown] = (await fleet.read_detail(connection, hands.desktop.id))["tasks"]
    assert (shown["task_id"], shown["status"]) == (task.task_id, "leased")


async def test_the_last_error_is_the_newest_of_its_attempts(world: World) -> None:
    client = await world.client()
    await ended(world, client, "failed", seconds=50)
    await ended(world, client, "returned", seconds=40)
    async with world.pool.acquire() as connection:
        assert (await fleet.read_detail(connection, client.id))["last_error"]["error"] == "it was returned"


async def test_a_desktop_is_found_by_the_end_of_its_id(world: World) -> None:
    client, other = await world.client(), await world.client()
    for name in (str(client.id), str(client.id)[-12:], f" {str(client.id).upper()} "):
        assert (await fleet.find_client(world.pool, name))["id"] == client.id
    with pytest.raises(NotFound):
        await fleet.find_client(world.pool, str(new_uuid()))
    for name in ("", "desk", "%", "' or true --", "\0", str(client.id)[:-1]):
        with pytest.raises(InvalidInput):
            await fleet.find_client(world.pool, name)
    twin = UUID(str(new_uuid())[:24] + str(other.id)[-12:])
    await world.pool.execute("update desktop_clients set id = $2 where id = $1", client.id, twin)
    with pytest.raises(Conflict):
        await fleet.find_client(world.pool, str(other.id)[-12:])


# --- lists -------------------------------------------------------------------------------------------------------


def ids(found: Sequence[dict[str, Any]]) -> list[UUID]:
    return [each["id"] for each in found]


async def test_filters_choose_by_tenant_workspace_state_and_login(world: World) -> None:
    other = await World.create(world.pool, "Other")
    fine, broken, silent, foreign = [await each.client() for each in (world, world, world, other)]
    await world.set("desktop_clients", fine.id, platform_sessions={"qwen": "healthy"})
    await world.set("desktop_clients", broken.id, platform_sessions={"qwen": "login_required", "kimi": "blocked"})
    await world.set("desktop_clients", silent.id, last_heartbeat_at=ago(hours=1))
    await clients.revoke_client(world.pool, world.tenant_id, silent.id)
    cases = [
        (FleetFilter(), {fine, broken, silent, foreign}),
        (FleetFilter(tenant_id=world.tenant_id), {fine, broken, silent}),
        (FleetFilter(workspace_ids=[other.workspace_id]), {foreign}),
        (FleetFilter(workspace_ids=[]), set()),
        (FleetFilter(state=ClientState.REVOKED), {silent}),
        (FleetFilter(state=ClientState.REVOKED, with_revoked=False), {silent}),
        (FleetFilter(with_revoked=False), {fine, broken, foreign}),
        (FleetFilter(online=True), {fine, broken, foreign}),
        (FleetFilter(platform="qwen"), {fine, broken}),
        (FleetFilter(platform="qwen", login="login_required"), {broken}),
        (FleetFilter(platform="kimi", login="unknown"), {fine, silent, foreign}),
        (FleetFilter(login="blocked"), {broken}),
    ]
    for which, expected in cases:
        for sort in Sort:
            found = await listed(world, which, sort=sort)
            assert set(ids(found)) == {each.id for each in expected}, (which, sort)


async def test_each_order_is_paged_without_a_gap_or_a_repetition(world: World) -> None:
    made = [await world.client() for _ in range(5)]
    for number, client in enumerate(made):
        await world.set("desktop_clients", client.id, last_heartbeat_at=ago(seconds=(number * 7) % 5))
    await world.set("desktop_clients", made[1].id, last_heartbeat_at=None)
    await ended(world, made[3], "returned")
    await ended(world, made[0], "returned", "succeeded")
    await world.leased(made[2])
    for sort, first in (
        (Sort.NEWEST, made[4]),
        (Sort.ABORT_RATE, made[3]),
        (Sort.QUEUE_DEPTH, made[2]),
        (Sort.SILENCE, made[1]),
    ):
        whole = await listed(world, sort=sort)
        paged: list[dict[str, Any]] = []
        after: After | None = None
        for _ in range(4):
            page = await listed(world, sort=sort, after=after, limit=2)
            paged += page
            after = After(page[-1]["id"], page[-1]["sort_key"]) if page else after
        assert ids(paged) == ids(whole), sort
        assert (len(whole), whole[0]["id"]) == (5, first.id), sort


# --- totals ------------------------------------------------------------------------------------------------------


async def totals(world: World, tenant_id: int | None = None) -> fleet.FleetTotals:
    async with world.pool.acquire() as connection:
        return await fleet.read_totals(connection, DispatchSettings(), tenant_id)


async def test_totals_count_states_versions_hubs_logins_phases_and_slots(world: World) -> None:
    other = await World.create(world.pool, "Other")
    busy, paused, away, revoked = [await world.client() for _ in range(4)]
    foreign = await other.client(max_concurrent=9)
    await world.set(
        "desktop_clients", busy.id, version="2.0", hub="a", platform_sessions={"qwen": "healthy", "x": "odd"}
    )
    await world.set("desktop_clients", paused.id, version="2.0", hub="b", paused=True, max_concurrent=3)
    await world.set("desktop_clients", away.id, last_heartbeat_at=ago(hours=1), version="1.0")
    await clients.revoke_client(world.pool, world.tenant_id, revoked.id)
    await in_phase(world, busy, "WAITING")
    await world.leased(busy, platform="doubao")
    await in_phase(world, away, "PARSING", "kimi")
    found = await totals(world, world.tenant_id)
    assert found.states == {"online": 1, "paused": 1, "offline": 0, "lost": 1, "revoked": 1}
    assert (found.versions, found.hubs) == ({"2.0": 2}, {"a": 1, "b": 1})
    assert found.logins == {"qwen": {"healthy": 1}, "other": {"other": 1}}
    assert found.phases == {"WAITING": 1}
    assert (found.slots_used, found.slots_total, found.queued) == (1, 5, 1)
    everywhere = await totals(world)
    # A desktop's own number is never above the fuse.
    assert (everywhere.states["online"], everywhere.slots_total) == (2, 9)
    assert foreign.id


async def test_totals_name_no_more_than_20_versions_and_hubs(world: World) -> None:
    """What desktops say of themselves must not make as many labels as it likes."""
    made = [await world.client() for _ in range(24)]
    for number, client in enumerate(made):
        name = f"v{min(number, 22):02}"
        await world.set("desktop_clients", client.id, version=name, hub=name)
    found = await totals(world)
    for names in (found.versions, found.hubs):
        assert (len(names), names["v22"], names["other"]) == (21, 2, 3)


async def test_an_empty_fleet_has_zeros(world: World) -> None:
    found = await totals(world)
    assert set(found.states.values()) == {0}
    assert (found.slots_used, found.slots_total, found.logins) == (0, 0, {})
