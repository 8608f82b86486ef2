"""What the hub stands on goes away, or the hub itself is asked to: desktops are told, and find everything again."""

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from activities.outbox_pump import OutboxPump
from activities.presence import PresenceSweeper
from api.auth import Role, issue_development_token
from domain.lanes import Lane
from domain.protocol import (
    CloseCode,
    ErrorCode,
    ErrorFrame,
    Heartbeat,
    HeldAttempt,
    ServerAck,
    Snapshot,
    Sync,
    TaskAvailable,
    TaskControl,
)
from settings import Settings
from store.listen import Listener
from store.residents import take
from tests.activities.pumping import pumping
from tests.conftest import Servers
from tests.faults.hub_rig import HubRig, MakeRig, desks_of, ended, waiting
from tests.hub.conftest import Desk
from tests.support.hub_server import DEVELOPMENT_KEY, HubServer
from tests.support.result_queues import until
from tests.support.world import Desktop, ago

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("hub")]


def held(frames: Sequence[TaskAvailable]) -> list[HeldAttempt]:
    return [HeldAttempt(task_id=one.task_id, attempt_id=one.attempt_id, state="queued") for one in frames]


async def test_sigterm_sends_everybody_away_with_1012_and_every_task_is_accounted_for(
    make_rig: MakeRig, rng: random.Random
) -> None:
    rig = await make_rig()
    desks, stuck = await desks_of(rig, 40), await rig.world.client(online=False)
    await rig.greeted(stuck, receive_buffer=4096)
    for _ in range(40):
        await rig.order(stuck.id, reason="x" * 20_000)  # its queue holds frames that never get out
    tasks = {client.id: await waiting(rig, client) for client, _ in desks}
    told = rng.randrange(len(desks))
    for client, desk in desks[:told]:
        await rig.hint(client.id, tasks[client.id])
        await desk.send(Heartbeat(id="last"))
        await desk.next(ServerAck)
    await asyncio.gather(*(rig.hint(client.id, tasks[client.id]) for client, _ in desks[told:]))
    began = time.monotonic()
    rig.server.terminate()
    assert await asyncio.gather(*(ended(desk) for _, desk in desks)) == [CloseCode.SERVICE_RESTART] * 40
    assert await rig.server.exited() == 0
    # 10 s are promised; the rest is room for a busy machine.
    assert time.monotonic() - began < 30
    assert await rig.online() == 0
    await rig.server.start()
    for client, before in desks:
        got = [frame for frame in before.seen if isinstance(frame, TaskAvailable)]
        snapshot = await (await rig.connect(client)).hello(*held(got))
        assert [one.task_id for one in snapshot.available] + [one.task_id for one in got] == [str(tasks[client.id])]
        assert all(verdict.valid for verdict in snapshot.held)
        row = await rig.world.execution(tasks[client.id])
        assert (row["pushed_at"] is not None) or not got


async def test_a_client_that_never_answers_pings_is_gone_and_its_work_moves(make_rig: MakeRig) -> None:
    # Long enough for a neighbour on a busy machine, which must answer in time.
    rig = await make_rig(HUB_PING_INTERVAL="0.5", HUB_PING_TIMEOUT="5")
    client, neighbour = await rig.world.client(online=False), await rig.desk()
    request = await rig.world.request(client_id=client.id)
    high = await rig.world.leased(client, request_id=request, lane=Lane.HIGH)
    running = await rig.world.leased(client, status="in_progress")
    peer = await rig.greeted(
        client,
        held=[
            HeldAttempt(task_id=str(high.task_id), attempt_id=str(high.attempt_id), state="queued"),
            HeldAttempt(task_id=str(running.task_id), attempt_id=str(running.attempt_id), state="running"),
        ],
    )
    assert await peer.closed() in (CloseCode.INTERNAL_ERROR, None)
    await until(lambda: is_online(rig, client, False))
    # Pings of its own library kept the other one.
    await rig.order(neighbour.client.client_id, generation=3)
    assert (await neighbour.next(TaskControl)).interrupt_generation == 3
    # 30 s of silence, 5 s in which its workflow did nothing, and the lease: by rows, since none of it is the hub's.
    sweeper = PresenceSweeper(rig.pool)
    epoch = await take(rig.pool, "presence", "test")
    await rig.world.set("desktop_clients", client.id, last_heartbeat_at=ago(seconds=31))
    assert (await sweeper.sweep("presence", epoch))["lost"] == 1
    assert len(await rig.world.outbox("client_lost")) == 1
    await rig.world.set("desktop_clients", client.id, lost_at=ago(seconds=6))
    await rig.world.set("desktop_tasks", running.task_id, lease_expires_at=ago(seconds=1))
    await sweeper.sweep("presence", epoch)
    for lease in (high, running):
        business = await rig.world.business(lease.business_id)
        assert (business["status"], business["active_task_id"]) == ("pending", None)
        assert (await rig.world.attempt(lease.attempt_id))["ended_at"] is not None


async def is_online(rig: HubRig, client: Desktop, online: bool) -> bool:
    return bool((await rig.world.row("desktop_clients", client.id))["online"]) is online


async def test_a_token_revoked_at_the_api_closes_the_socket_of_a_hub_in_another_process(
    rig: HubRig, servers: Servers, tmp_path: Path
) -> None:
    (revoked, desk), (_, neighbour) = await desks_of(rig, 2)
    api = HubServer(
        tmp_path,
        rig.server.database_url,
        rig.server.amqp_url,
        rig.server.prefix,
        roles=("api",),
        TEMPORAL_ADDRESS=servers.temporal_address,
        TEMPORAL_NAMESPACE=servers.temporal_namespace,
    )
    settings = Settings(_env_file=None, jwt_dev_key=DEVELOPMENT_KEY)
    token = issue_development_token(settings, rig.world.tenant_id, [rig.world.workspace_id], 1, Role.ADMIN)
    async with api, Listener(rig.server.database_url) as listener, httpx.AsyncClient(base_url=api.api_url) as http:
        await listener.ready.wait()
        async with pumping(rig.pool, OutboxPump(rig.pool, listener, rig.publisher).run):
            headers = {"Authorization": f"Bearer {token}"}
            answer = await http.delete(f"/api/desktop/clients/{revoked.id}", headers=headers)
            assert answer.is_success, answer.text
            # Within 2 s: the pump is woken by the commit. The bound of this wait is for a busy machine.
            async with asyncio.timeout(15):
                assert await ended(desk) == CloseCode.REVOKED
    again = await rig.peer(revoked.token)
    assert await again.closed() == CloseCode.UNAUTHENTICATED
    await neighbour.send(Heartbeat(id="beat"))
    assert (await neighbour.next(ServerAck)).ref == "beat"


async def test_when_every_database_connection_is_terminated_the_hub_goes_on(rig: HubRig, rng: random.Random) -> None:
    base, log = await rig.server.counts(), len(rig.server.log())
    desks = await desks_of(rig, 30)
    for _ in range(3):
        syncing = [asyncio.create_task(synced(desk)) for _, desk in desks]
        await asyncio.sleep(rng.uniform(0.0, 0.05))  # somewhere in the midst of it
        killed = await rig.pool.fetchval(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity"
            " where datname = current_database() and application_name = 'giveway-hub'"
        )
        assert killed > 0
        await asyncio.gather(*syncing)
    for client, desk in desks:
        task = await waiting(rig, client)
        await rig.hint(client.id, task)
        assert (await desk.next(TaskAvailable)).task_id == str(task)
    refusals = {frame.code for _, desk in desks for frame in desk.seen if isinstance(frame, ErrorFrame)}
    assert refusals <= {ErrorCode.DATABASE_UNAVAILABLE}
    assert "Traceback" not in rig.server.log()[log:]
    await asyncio.gather(*(desk.socket.close() for _, desk in desks))
    await rig.server.back_to(base)


async def synced(desk: Desk) -> None:
    """Ask for a snapshot, and have one: the hub's own if the answer was an error."""
    await desk.send(Sync(id=uuid4().hex))
    while not (await desk.next(Snapshot)).last:
        pass
