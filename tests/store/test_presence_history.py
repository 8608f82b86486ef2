"""What happened to a desktop is noted by the statements that change it, once, and at most a hundred are kept."""

from collections.abc import Sequence
from typing import Any

import pytest

from activities.presence import PresenceSweeper
from domain.hub_port import ClientIdentity, ConnectionEnd, HeartbeatRecord
from domain.pauses import PauseKind, PauseTarget
from domain.protocol import CloseCode, Heartbeat, HeldAttempt, Hello
from store import clients, pauses, residents
from store.client_history import ClientEvent, note_event, read_history
from store.database import Pool, transaction
from store.hub_backend import StoreHubBackend
from tests.support.world import Desktop, World, ago

NAME = "presence-sweeper/0"


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


@pytest.fixture
def hub(pool: Pool) -> StoreHubBackend:
    return StoreHubBackend(pool, hub="hub-1")


def identity(world: World, client: Desktop) -> ClientIdentity:
    return ClientIdentity(client.id, world.tenant_id)


def beat(client: Desktop, epoch: int, *, healthy: bool = True, **sessions: str) -> HeartbeatRecord:
    return HeartbeatRecord(client.id, epoch, Heartbeat(id="b", healthy=healthy, platform_sessions=sessions))


async def history(world: World, client: Desktop, limit: int = 100) -> Sequence[Any]:
    """The oldest first."""
    return list(reversed(await read_history(world.pool, client.id, limit)))


async def kinds(world: World, client: Desktop) -> list[str]:
    return [event["kind"] for event in await history(world, client)]


async def sweep(world: World) -> dict[str, int]:
    epoch = await residents.take(world.pool, NAME, "test")
    return await PresenceSweeper(world.pool).sweep(NAME, epoch)


async def test_a_connection_says_what_was_before_and_its_end_says_how(world: World, hub: StoreHubBackend) -> None:
    client = await world.client(online=False)
    first = await hub.connected(identity(world, client), Hello(id="1", version="1.0"))
    second = await hub.connected(identity(world, client), Hello(id="2", platform_sessions={"qwen": "blocked"}))
    await hub.disconnected([ConnectionEnd(client.id, first, CloseCode.REPLACED)])
    await hub.disconnected([ConnectionEnd(client.id, second, 1006)])
    await world.set("desktop_clients", client.id, last_heartbeat_at=ago(seconds=31))
    await sweep(world)
    await hub.connected(identity(world, client), Hello(id="3"))
    events = await history(world, client)
    assert [event["kind"] for event in events] == ["connected", "replaced", "disconnected", "lost", "back"]
    assert [event["close_code"] for event in events] == [None, None, 1006, None, None]
    assert events[0]["detail"] == {"version": "1.0"}
    assert events[1]["detail"]["sessions"] == {"qwen": [None, "blocked"]}
    assert {event["hub"] for event in events} == {"hub-1"}


async def test_what_a_connection_and_a_beat_say_is_kept_on_the_client(world: World, hub: StoreHubBackend) -> None:
    client = await world.client(online=False)
    held = [
        HeldAttempt(task_id=str(client.id), attempt_id=str(client.id), state=state) for state in ("queued", "posting")
    ]
    epoch = await hub.connected(identity(world, client), Hello(id="1", held=held))
    row = await world.row("desktop_clients", client.id)
    assert (row["hub"], row["reported_running"], row["reported_queued"]) == ("hub-1", 1, 1)
    assert row["connected_at"] is not None
    frame = Heartbeat(id="b", running=held, queued=held[:1])
    await hub.heartbeats([HeartbeatRecord(client.id, epoch, frame)])
    row = await world.row("desktop_clients", client.id)
    assert (row["reported_running"], row["reported_queued"]) == (2, 1)
    await hub.disconnected([ConnectionEnd(client.id, epoch, 1001)])
    row = await world.row("desktop_clients", client.id)
    assert (row["last_close_code"], row["disconnected_at"] >= row["connected_at"]) == (1001, True)


async def test_a_beat_is_noted_when_a_login_or_the_health_changes_and_never_otherwise(
    world: World, hub: StoreHubBackend
) -> None:
    client = await world.client()
    await world.set("desktop_clients", client.id, platform_sessions={"qwen": "healthy", "kimi": "healthy"})
    await hub.heartbeats([beat(client, 1, qwen="login_required", doubao="healthy")])
    await hub.heartbeats([beat(client, 1, qwen="login_required", doubao="healthy")])
    await hub.heartbeats([beat(client, 1, healthy=False, qwen="login_required", doubao="healthy")])
    logins, health = await history(world, client)
    assert (logins["kind"], health["kind"]) == ("sessions_changed", "health_changed")
    assert logins["detail"]["sessions"] == {
        "qwen": ["healthy", "login_required"], "kimi": ["healthy", None], "doubao": [None, "healthy"],
    }  # fmt: skip
    assert health["detail"] == {"healthy": False}


async def test_a_beat_after_silence_brings_a_client_back(world: World, hub: StoreHubBackend) -> None:
    client = await world.client()
    await world.set("desktop_clients", client.id, last_heartbeat_at=ago(seconds=31))
    await sweep(world)
    await hub.heartbeats([beat(client, 1)])
    assert await kinds(world, client) == ["lost", "back"]


async def test_a_revoked_desktop_is_silent_for_good_and_not_lost(world: World) -> None:
    client = await world.client()
    await clients.revoke_client(world.pool, world.tenant_id, client.id)
    await world.set("desktop_clients", client.id, last_heartbeat_at=ago(seconds=31))
    await sweep(world)
    assert await kinds(world, client) == ["revoked"]


async def test_what_operators_change_is_noted_when_it_changes(world: World) -> None:
    client = await world.client()
    target = PauseTarget(PauseKind.CLIENT, client_id=client.id)
    for _ in range(2):
        async with transaction(world.pool) as connection:
            await pauses.pause(connection, target, drain=False, actor="cli:ann")
    [event] = await history(world, client)
    assert event["detail"] == {"actor": "cli:ann", "changed": {"paused": [False, True]}}
    assert (await world.row("desktop_clients", client.id))["paused_at"] is not None


async def test_a_client_that_connects_every_second_keeps_its_newest_hundred(world: World, hub: StoreHubBackend) -> None:
    client = await world.client(online=False)
    await world.set("desktop_clients", client.id, event_count=99_960)
    for number in range(60):
        epoch = await hub.connected(identity(world, client), Hello(id=str(number)))
        await hub.disconnected([ConnectionEnd(client.id, epoch, 1006)])
    events = await history(world, client)
    assert [event["number"] for event in events] == list(range(99_981, 100_081))
    assert events[-1]["kind"] == "disconnected"


async def test_the_history_of_a_desktop_revoked_a_month_ago_is_forgotten(world: World) -> None:
    old, young = await world.client(), await world.client()
    for client in (old, young):
        await clients.revoke_client(world.pool, world.tenant_id, client.id)
    await world.set("desktop_clients", old.id, revoked_at=ago(days=31))
    assert (await sweep(world))["histories"] == 1
    assert await kinds(world, old) == []
    assert await kinds(world, young) == ["revoked"]
    assert (await sweep(world))["histories"] == 0


async def test_a_connection_that_missed_its_order_to_close_gets_it_again_by_its_next_beat(
    world: World, hub: StoreHubBackend
) -> None:
    """The broker may have lost it: a revoked desktop is out within a beat all the same."""
    revoked, rotated, silent, replaced, restored, fine = [await world.client() for _ in range(6)]
    await clients.revoke_client(world.pool, world.tenant_id, revoked.id)
    # The hub may hold a connection that the database has given up.
    await world.set("desktop_clients", silent.id, online=False, lost_at=ago(seconds=1))
    for client in (rotated, silent):
        await clients.rotate_token(world.pool, world.tenant_id, client.id)
    newest = await hub.connected(identity(world, replaced), Hello(id="1"))
    await world.pool.execute("delete from outbox")
    await hub.heartbeats([beat(each, 1) for each in (revoked, rotated, silent, replaced, fine)] + [beat(restored, 9)])
    orders = {each["payload"]["client_id"]: each["payload"] for each in await world.outbox("client_control")}
    assert {client: (order["code"], order["epoch"]) for client, order in orders.items()} == {
        **{str(each.id): (CloseCode.REVOKED, 2) for each in (revoked, rotated, silent)},
        str(replaced.id): (CloseCode.REPLACED, newest),
        str(restored.id): (CloseCode.SERVER_ERROR, None),
    }


async def test_the_kinds_are_those_that_the_table_takes(world: World) -> None:
    client = await world.client()
    async with transaction(world.pool) as connection:
        for kind in ClientEvent:
            await note_event(connection, client.id, kind, {})
    assert await kinds(world, client) == [kind.value for kind in ClientEvent]
