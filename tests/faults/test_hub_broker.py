"""The broker restarts under a hub with desktops: nobody is disconnected, everybody gets a snapshot, pushes flow."""

import asyncio
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from broker.connection import BrokerConnection
from broker.publisher import Publisher
from domain.protocol import Snapshot, TaskAvailable
from store.database import Pool
from tests.faults.hub_rig import desks_of, hub_rig, waiting
from tests.faults.own_broker import OwnBroker
from tests.support.hub_server import HubServer
from tests.support.result_queues import until

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("own-broker")]


async def test_after_a_restart_of_the_broker_everybody_gets_a_snapshot_and_pushes_flow(
    own_broker: OwnBroker, pool: Pool, database_url: str, tmp_path: Path
) -> None:
    prefix = f"hub-{uuid4().hex[:8]}."
    async with BrokerConnection(own_broker.url, name="fault-test") as connection:
        publisher = Publisher(connection, prefix=prefix, shards=1)
        server = HubServer(tmp_path, database_url, own_broker.url, prefix)
        async with server, hub_rig(server, pool, publisher) as rig:
            desks, pid = await desks_of(rig, 20), rig.server.pid
            await own_broker.restart()
            snapshots = await asyncio.gather(*(desk.next(Snapshot) for _, desk in desks))
            assert {snapshot.ref for snapshot in snapshots} == {None}
            for client, desk in desks:
                task = await waiting(rig, client)
                await until(partial(rig.hint, client.id, task))
                assert (await desk.next(TaskAvailable)).task_id == str(task)
            assert (rig.server.pid, rig.server.exit_code) == (pid, None)
