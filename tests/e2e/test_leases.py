"""Leases across processes: hub and API apart, reference desktops, the residents (2-desktop §2.2)."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import httpx
import pytest

from api.body_guard import MAX_BODY_BYTES
from desktop.events import EventKind
from domain.phases import Phase
from domain.transport import ControlHint
from store.audit import Integrity, check_integrity
from tests.conftest import Servers, database_named
from tests.e2e.lease_rig import LeaseRig, answering, give_it_a_clock_of_its_own, lease_rig
from tests.faults.conftest import forget_topology
from tests.faults.hub_rig import publish
from tests.support.databases import DatabaseFarm
from tests.support.hub_server import HubServer
from tests.support.world import Lease

pytestmark = [pytest.mark.timeout(40), pytest.mark.xdist_group("leases")]

WHOLE = Integrity(lost=0, duplicated=0, miscounted=0, overhanging=0)
TEN_MINUTES = timedelta(minutes=10)


@pytest.fixture(scope="module")
def server(servers: Servers, databases: DatabaseFarm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubServer]:
    """Hub and API in one process for all of these tests."""
    name, prefix = databases.take(), f"leases-{uuid4().hex[:8]}."
    database_url = database_named(servers.database_url, name)
    asyncio.run(give_it_a_clock_of_its_own(database_url))
    process = HubServer(
        tmp_path_factory.mktemp("leases"),
        database_url,
        servers.amqp_url,
        prefix,
        roles=("hub", "api"),
        TEMPORAL_ADDRESS=servers.temporal_address,
        TEMPORAL_NAMESPACE=servers.temporal_namespace,
    )
    asyncio.run(process.start())
    yield process
    process.close()
    asyncio.run(forget_topology(servers.amqp_url, prefix))
    databases.give_back(name)


@pytest.fixture
async def rig(server: HubServer, tmp_path: Path) -> AsyncIterator[LeaseRig]:
    async with lease_rig(server, tmp_path) as opened:
        yield opened


async def outcomes(rig: LeaseRig, business: int) -> list[str | None]:
    """Of the attempts, in the order of their leases."""
    query = "select outcome from desktop_task_attempts where monitor_task_id = $1 order by leased_at, attempt"
    return [row["outcome"] for row in await rig.pool.fetch(query, business)]


async def business_of(rig: LeaseRig, task: UUID) -> int:
    return int((await rig.world.execution(task))["monitor_task_id"])


async def completed(rig: LeaseRig, business: int) -> None:
    await rig.until("select status = 'completed' from monitoring_collect_tasks where id = $1", business)


async def test_a_frozen_desktops_task_is_unknown_then_lost_and_its_late_answer_stops_the_newer_attempt(
    rig: LeaseRig,
) -> None:
    frozen, other = await rig.world.client(online=False), await rig.world.client(online=False)
    slow, quick = answering(), answering()
    task = await rig.waiting(frozen)
    slow.hold(str(task), Phase.WAITING)
    desk = await rig.desk(frozen, slow)
    await slow.inside(str(task), Phase.WAITING)
    await rig.has_beaten(frozen)
    business = await business_of(rig, task)

    await rig.leave(task, -1)
    assert (await rig.sweep())["unknown"] == 1
    await rig.pool.execute(
        "update desktop_clients set last_heartbeat_at = now() - interval '31 seconds' where id = $1", frozen.id
    )
    swept = await rig.sweep()
    assert (swept["lost"], swept["resolved"]) == (1, 1)
    assert (await rig.world.business(business))["dispatch_attempts"] == 1

    newer = await rig.world.execution_task(business, other.id)
    quick.hold(str(newer), Phase.WAITING)
    second = await rig.desk(other, quick)
    await quick.inside(str(newer), Phase.WAITING)
    slow.let(str(task))
    await desk.record.seen(EventKind.FINISHED, str(task))
    await completed(rig, business)
    await second.record.seen(EventKind.ORDER_TAKEN, str(newer))
    quick.let(str(newer))
    dropped = await second.record.seen(EventKind.DROPPED, str(newer))
    assert dropped.detail == "canceled"
    assert await outcomes(rig, business) == ["succeeded", "superseded"]
    assert (await rig.world.business(business))["dispatch_attempts"] == 1
    assert await check_integrity(rig.pool, rig.world.tenant_id) == WHOLE


async def test_a_desktop_that_restarts_with_an_empty_queue_has_fresh_leases_at_once_and_nothing_is_counted(
    rig: LeaseRig,
) -> None:
    client, driver = await rig.world.client(online=False), answering()
    tasks = [await rig.waiting(client, platform) for platform in ("qwen", "kimi", "doubao")]
    for task in tasks:
        driver.hold(str(task), Phase.NAVIGATING)
    desk = await rig.desk(client, driver)
    [running] = [UUID(event.task_id) for event in [await desk.record.seen(EventKind.STARTED)]]
    await desk.kill()
    for task in tasks:
        driver.let(str(task))
    again = await rig.desk(client, driver)
    waited = [task for task in tasks if task != running]
    for task in waited:
        business = await business_of(rig, task)
        await again.record.seen(EventKind.FINISHED, str(task))
        await completed(rig, business)
        assert await outcomes(rig, business) == ["replaced", "succeeded"]
        assert (await rig.world.business(business))["dispatch_attempts"] == 0
    # What ran is over, and counts; everybody may have it again.
    lost = await rig.world.business(await business_of(rig, running))
    assert (lost["status"], lost["active_task_id"], lost["dispatch_attempts"]) == ("pending", None, 1)
    assert await check_integrity(rig.pool, rig.world.tenant_id) == WHOLE


async def test_a_stale_acknowledgement_changes_nothing_and_the_current_order_reaches_the_desktop(
    rig: LeaseRig,
) -> None:
    client, driver = await rig.world.client(online=False), answering()
    task = await rig.waiting(client)
    driver.hold(str(task), Phase.NAVIGATING)
    desk = await rig.desk(client, driver)
    await driver.inside(str(task), Phase.NAVIGATING)
    # A second click has raised the generation; of the two orders only the first one's frame got through.
    request = await rig.world.request(client_id=client.id, generation=8)
    await rig.world.interrupt(task, request, 8)
    first = ControlHint(
        client_id=str(client.id), task_id=str(task), control="interrupt_requested", interrupt_generation=7
    )
    assert await publish(rig.publisher, first)
    await desk.record.seen(EventKind.ORDER_TAKEN, str(task))
    driver.let(str(task))
    gave_way = await desk.record.seen(EventKind.GAVE_WAY, str(task))
    assert gave_way.generation == 8
    [stale] = await rig.pool.fetch(
        "select detail from audit_events where action = 'stale_callback' and tenant_id = $1", rig.world.tenant_id
    )
    assert (stale["detail"]["generation"], stale["detail"]["current_generation"]) == (7, 8)
    assert await outcomes(rig, await business_of(rig, task)) == ["preempted"]
    assert (await rig.world.row("monitoring_collect_requests", request))["interrupt_settled_count"] == 1


@pytest.mark.parametrize("ahead", [TEN_MINUTES, -TEN_MINUTES], ids=["database-ahead", "database-behind"])
async def test_with_clocks_ten_minutes_apart_leases_last_and_end_by_the_databases(
    rig: LeaseRig, ahead: timedelta
) -> None:
    """Desktop, hub, API, sweeper and ingest have another clock than the database; only its own decides."""
    await rig.set_clock(ahead)
    try:
        client, driver = await rig.world.client(online=False), answering()
        tasks = [await rig.waiting(client, platform) for platform in ("qwen", "kimi")]
        for task in tasks:
            driver.hold(str(task), Phase.NAVIGATING)
        desk = await rig.desk(client, driver, heartbeat=0.2)
        running = UUID((await desk.record.seen(EventKind.STARTED)).task_id)
        [waits] = [task for task in tasks if task != running]
        await rig.has_beaten(client)
        await rig.sweep()
        assert [(await rig.world.execution(task))["status"] for task in (running, waits)] == ["in_progress", "queued"]
        assert (await rig.world.row("desktop_clients", client.id))["lost_at"] is None

        # Busy and online: what waits behind the running one is extended with it.
        for task in tasks:
            await rig.leave(task, 20)
        for task in tasks:
            await rig.until(
                "select lease_expires_at > now() + interval '60 seconds' from desktop_tasks where id = $1", task
            )

        await rig.pool.execute("update desktop_tasks set lease_expires_at = now() where id = $1", waits)
        await rig.sweep()
        await desk.record.seen(EventKind.DROPPED, str(waits))
        business = await rig.world.business(await business_of(rig, waits))
        assert (business["active_task_id"], business["dispatch_attempts"]) == (None, 0)

        driver.let(str(running))
        await desk.record.seen(EventKind.FINISHED, str(running))
        await completed(rig, await business_of(rig, running))
        await desk.stop()
    finally:
        await rig.set_clock(timedelta())


@pytest.mark.parametrize(("over", "status"), [(0, 202), (1, 413)], ids=["one-megabyte", "one-byte-more"])
async def test_a_result_without_a_length_has_one_megabyte_over_the_wire_too(
    rig: LeaseRig, over: int, status: int
) -> None:
    client = await rig.world.client()
    lease = await rig.world.leased(client, status="in_progress")
    async with httpx.AsyncClient(timeout=30) as http:
        answer = await http.post(
            f"{rig.server.api_url}/api/desktop/tasks/{lease.task_id}/result",
            content=in_chunks(filled(lease, MAX_BODY_BYTES + over)),
            headers={"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"},
        )
    assert answer.status_code == status, answer.text
    row = await rig.world.execution(lease.task_id)
    assert (row["result_received_at"] is None) is (status == 413)


def filled(lease: Lease, size: int) -> bytes:
    """A result of so many bytes."""
    known = {"lease_token": lease.token, "attempt_id": str(lease.attempt_id), "outcome": "succeeded", "raw": ""}
    return json.dumps({**known, "raw": "x" * (size - len(json.dumps(known)))}).encode()


async def in_chunks(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 65536):
        yield body[start : start + 65536]
