"""`giveway doctor` on an installation: servers that answer are not yet work that is done."""

from collections.abc import Mapping

import pytest

from broker.consumer import Received
from broker.dead_letters import dead_letter
from broker.publisher import Publisher
from devstack.check import Check
from devstack.record import Endpoints
from devstack.vitals import check_vitals
from domain.transport import INGEST_EXCHANGE
from store.database import Pool
from store.residents import take
from tests.conftest import Servers
from tests.support.broker import SHARDS
from tests.support.world import World, ago


@pytest.fixture
def endpoints(servers: Servers, database_url: str) -> Endpoints:
    return Endpoints(database_url, servers.amqp_url, servers.temporal_address, None, servers.temporal_namespace)


async def checks_of(endpoints: Endpoints, prefix: str) -> dict[str, Check]:
    environ: Mapping[str, str] = {"AMQP_PREFIX": prefix, "INGEST_SHARDS": str(SHARDS)}
    return {check.name: check for check in await check_vitals(endpoints, environ)}


async def test_an_installation_that_never_ran_has_nothing_to_say(endpoints: Endpoints, prefix: str) -> None:
    assert await checks_of(endpoints, prefix) == {}


async def test_a_resident_without_a_heartbeat_is_named_with_what_to_do(
    pool: Pool, endpoints: Endpoints, prefix: str
) -> None:
    await take(pool, "no-such-role/0", "a worker that is gone")
    residents = (await checks_of(endpoints, prefix))["residents"]
    assert not residents.ok
    assert "1 of 1 are silent: no-such-role/0" in residents.detail
    assert "worker" in residents.fix


async def test_results_that_nobody_serves_and_letters_that_were_given_up_are_shown(
    pool: Pool, endpoints: Endpoints, publisher: Publisher, prefix: str
) -> None:
    await take(pool, "ingest/1", "a worker that is gone")
    quiet = await checks_of(endpoints, prefix)
    assert (quiet["ingest"].ok, quiet["dead letters"].fix, quiet["projections"].fix) == (True, "", "")
    assert await publisher.publish(INGEST_EXCHANGE, "1", b"{}")
    await dead_letter(publisher, Received(b"{}", None, 0, {}, 0, 0), "reason", shard=1)
    shown = await checks_of(endpoints, prefix)
    assert "1 results wait in 1 of 2 shards" in shown["ingest"].detail
    assert shown["ingest"].fix.startswith("nobody consumes shard 1")
    assert "giveway dlq list" in shown["dead letters"].fix


async def test_a_result_that_was_received_long_ago_is_a_lag_whatever_the_queue_says(
    pool: Pool, endpoints: Endpoints, prefix: str
) -> None:
    await take(pool, "ingest/1", "a worker")
    world = await World.create(pool)
    lease = await world.leased(await world.client(), status="in_progress")
    await world.set("desktop_tasks", lease.task_id, result_received_at=ago(seconds=75))
    found = (await checks_of(endpoints, prefix))["ingest"]
    assert not found.ok
    assert "the oldest for 7" in found.detail
