"""Drift through the workflow: with every desktop lost a request waits for one to come back, up to its TTL (§10.6)."""

from activities.presence import PresenceSweeper
from domain.hub_port import ClientIdentity
from domain.protocol import Hello
from store import presence, residents
from tests.support.clicks import Hands, rounds
from tests.support.world import Desktop, ago
from tests.workflows.clock import Clock
from tests.workflows.stage import Stage, shows, until


async def falls_silent(stage: Stage, client: Desktop) -> None:
    await stage.world.set("desktop_clients", client.id, last_heartbeat_at=ago(seconds=31))
    name = "resident/presence/0"
    await PresenceSweeper(stage.pool).sweep(name, await residents.take(stage.pool, name, "test"))
    await stage.deliver()


async def test_a_desktop_that_comes_back_in_time_gets_what_waits(stage: Stage, clock: Clock) -> None:
    await stage.world.platform_limit("qwen", 2)
    only = await stage.world.client()
    command = stage.command()
    _, handle = await stage.accept(command)
    await falls_silent(stage, only)
    await until(lambda: shows(handle, "none online"))
    await clock.forward(handle, 250)
    row = await stage.request(command.request_id)
    assert (row["status"], row["hint"], row["target_client_id"]) == ("accepted", "waiting_for_client", None)
    await presence.connect(stage.pool, ClientIdentity(only.id, stage.world.tenant_id), Hello(id="1"))
    await rounds(stage.pool)
    for frame in await Hands(stage.world, only).take():
        await Hands(stage.world, only).run(frame)
    await stage.deliver()
    assert (await handle.result()).status == "succeeded"


async def test_with_nobody_back_by_the_ttl_it_times_out(stage: Stage, clock: Clock) -> None:
    only = await stage.world.client()
    command = stage.command()
    _, handle = await stage.accept(command)
    await falls_silent(stage, only)
    await until(lambda: shows(handle, "none online"))
    await clock.forward(handle, 301)
    result = await handle.result()
    assert (result.status, result.requested, result.returned) == ("timed_out", 2, 2)
