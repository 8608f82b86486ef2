"""Gauges are read from the database, seldom, and say what is there (dispatch §15.1)."""

import asyncio
import socket
from dataclasses import replace

import httpx
import pytest
from prometheus_client import CollectorRegistry

from domain.errors import PortTaken
from domain.lanes import Lane
from store.database import Pool
from store.gauges import read_gauges
from telemetry import readings as module
from telemetry.readings import MOST_TENANTS, Reading, Readings
from telemetry.server import serve_metrics
from tests.support.world import World, ago


@pytest.fixture
async def world(pool: Pool) -> World:
    return await World.create(pool)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


class Source:
    """Readings as a test gives them; counts how often it is asked."""

    def __init__(self, *readings: Reading) -> None:
        self.readings = list(readings)
        self.asked = 0

    async def __call__(self) -> Reading:
        self.asked += 1
        await asyncio.sleep(0)
        if not self.readings:
            raise OSError("the database is away")
        return self.readings.pop(0)


def registered(readings: Readings) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(readings)
    return registry


# --- the database ------------------------------------------------------------------------------------------------


async def test_backlogs_and_ages_are_those_of_what_waits(world: World, pool: Pool) -> None:
    request = await world.request()
    await world.set("monitoring_collect_requests", request, created_at=ago(seconds=40))
    high = await world.business_task(lane=Lane.HIGH, request_id=request)
    # High only since the click, however old the task is.
    await world.set("monitoring_collect_tasks", high, enqueued_at=ago(hours=9))
    other = await World.create(pool, "Other")
    for lane, count in ((Lane.NORMAL, 3), (Lane.NORMAL_BOOSTED, 1), (Lane.RETRY, 2)):
        for _ in range(count):
            await other.business_task(lane=lane)
    oldest = await world.business_task()
    await world.set("monitoring_collect_tasks", oldest, enqueued_at=ago(minutes=10))
    client = await world.client()
    await world.leased(client)
    await world.leased(client, status="in_progress", platform="doubao")
    await pool.execute("insert into dispatch_ledger (tenant_id, scheduled, high) values ($1, 2, 1)", world.tenant_id)
    found = await read_gauges(pool)
    assert (found.high_backlog, found.normal_backlog, found.retry_backlog) == (1, 5, 2)
    assert 40_000 <= found.high_oldest_ms < 70_000
    assert 600_000 <= found.normal_p99_ms < 660_000
    assert found.tenant_backlogs == {other.tenant_id: 4, world.tenant_id: 1}
    assert (found.legacy_open, found.desktop_tasks_open) == (0, 10)
    assert (found.online_clients, found.minute_used) == (1, 3)
    assert (found.queue_depth.highest, found.queue_depth.p95, found.queue_depth.average) == (1, 1, 1.0)


async def test_the_p99_leaves_out_the_oldest_hundredth(world: World, pool: Pool) -> None:
    question, _, _ = [await world.business_task() for _ in range(3)]
    await pool.execute("update monitoring_collect_tasks set enqueued_at = now() - interval '1 minute'")
    await pool.execute(
        "insert into questions (tenant_id, brand_id, text) select $1, $2, 'more ' || n from generate_series(1, 97) n",
        world.tenant_id,
        world.brand_id,
    )
    await pool.execute(
        "insert into monitoring_collect_tasks (tenant_id, workspace_id, brand_id, question_id, question_version_id,"
        " ai_platform_id, collector_type, run_mode, business_date, trigger_source, ingest_shard_key, enqueued_at)"
        " select t.tenant_id, t.workspace_id, t.brand_id, q.id, t.question_version_id, 'qwen', 'desktop',"
        " 'api_standard', t.business_date, 'automatic', 's', now() - interval '1 minute'"
        " from monitoring_collect_tasks t, questions q where t.id = $1 and q.text like 'more %'",
        question,
    )
    await world.set("monitoring_collect_tasks", question, enqueued_at=ago(hours=5))
    found = await read_gauges(pool)
    assert found.normal_backlog == 100
    assert 60_000 <= found.normal_p99_ms < 90_000


async def test_lags_are_the_age_of_the_oldest_that_is_not_processed(world: World, pool: Pool) -> None:
    lease = await world.leased(await world.client(), status="in_progress")
    await world.set("desktop_tasks", lease.task_id, result_received_at=ago(seconds=30))
    await pool.execute(
        "insert into projection_rebuild_queue (tenant_id, brand_id, business_date, marked_at, not_before) values"
        " ($1, $2, '2026-04-20', now() - interval '50 seconds', now()), ($1, $2, '2026-04-21',"
        " now() - interval '1 day', 'infinity')",
        world.tenant_id,
        world.brand_id,
    )
    await pool.execute(
        "insert into outbox (channel, kind, key, payload, created_at) values ('amqp', 'k', 'k', '{}',"
        " now() - interval '2 minutes'), ('amqp', 'k', 'k', '{}', now())"
    )
    found = await read_gauges(pool)
    assert 30_000 <= found.ingest_lag_ms < 60_000
    assert 50_000 <= found.projection_lag_ms < 80_000
    assert (found.projections_parked, found.outbox_overdue) == (1, 1)


async def test_a_legacy_result_that_waits_for_ingest_is_part_of_the_lag(world: World, pool: Pool) -> None:
    client = await world.client()
    task = await world.business_task(owner="legacy")
    await world.set(
        "monitoring_collect_tasks", task, status="received", leased_to_executor=client.id, leased_at=ago(seconds=90)
    )
    await pool.execute(
        "insert into desktop_task_attempts (id, tenant_id, monitor_task_id, client_id, attempt, token_hash,"
        " result_received_at) values (gen_random_uuid(), $1, $2, $3, 1, 'x', now() - interval '70 seconds')",
        world.tenant_id,
        task,
        client.id,
    )
    found = await read_gauges(pool)
    assert 70_000 <= found.ingest_lag_ms < 100_000
    assert (found.legacy_open, found.desktop_tasks_open) == (1, 0)


async def test_safe_point_intervals_are_those_of_the_last_day_by_platform(world: World, pool: Pool) -> None:
    client = await world.client()
    for platform, interval, ended in (("qwen", 1000.0, 1), ("qwen", 2000.0, 2), ("qwen", 9e9, 30), ("doubao", 7.0, 3)):
        lease = await world.leased(client, platform=platform)
        await world.set(
            "desktop_task_attempts", lease.attempt_id, safe_point_interval_ms=interval, ended_at=ago(hours=ended)
        )
    assert (await read_gauges(pool)).safe_point_p95_ms == {"qwen": pytest.approx(1950), "doubao": 7.0}


async def test_only_the_tenants_with_the_most_waiting_are_named(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.gauges.MOST_TENANTS", 2)
    worlds = [await World.create(pool, f"tenant {count}") for count in (1, 3, 2)]
    for world, count in zip(worlds, (1, 3, 2), strict=True):
        for _ in range(count):
            await world.business_task()
    assert (await read_gauges(pool)).tenant_backlogs == {worlds[1].tenant_id: 3, worlds[2].tenant_id: 2}
    assert MOST_TENANTS == 100


# --- the collector -----------------------------------------------------------------------------------------------


async def test_a_storm_of_scrapes_reads_the_database_once() -> None:
    source = Source(Reading(at=1, rows_written=0), Reading(at=2, rows_written=0))
    readings = Readings(source)
    await asyncio.gather(*(readings.refresh() for _ in range(50)))
    assert source.asked == 1


async def test_a_slow_reading_is_repeated_the_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module, "monotonic", lambda: now)

    async def slow() -> Reading:
        nonlocal now
        now += 3.0
        return Reading(at=now, rows_written=0)

    source = Source()
    readings = Readings(slow)
    await readings.refresh()
    readings._read = source
    now = 100.0 + 59.0
    await readings.refresh()
    assert source.asked == 0
    now = 100.0 + 61.0
    await readings.refresh()
    assert source.asked == 1


async def test_the_write_rate_is_what_was_written_between_two_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    first = Reading(at=1000.0, rows_written=500)
    source = Source(first, replace(first, at=1010.0, rows_written=1500), replace(first, at=1020.0, rows_written=0))
    readings = Readings(source)
    registry = registered(readings)
    seen = []
    for _ in range(3):
        now += 10.0
        await readings.refresh()
        seen.append(registry.get_sample_value("monitoring_pg_write_qps"))
    assert seen == [0.0, 100.0, 0.0]


async def test_numbers_that_are_too_old_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    readings = Readings(Source(Reading(at=1, rows_written=0, high_backlog=4)))
    registry = registered(readings)
    assert registry.get_sample_value("monitor_dispatch_high_backlog") is None
    await readings.refresh()
    now = 119.0
    await readings.refresh()
    assert registry.get_sample_value("monitor_dispatch_high_backlog") == 4
    now = 121.0
    assert registry.get_sample_value("monitor_dispatch_high_backlog") is None


# --- the address -------------------------------------------------------------------------------------------------


async def test_a_process_serves_its_metrics_and_nothing_else() -> None:
    port = free_port()
    readings = Readings(Source(Reading(at=1, rows_written=0, high_backlog=7)))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        async with serve_metrics("127.0.0.1", port, readings):
            answer = await http.get("/metrics", headers={"Accept": "application/openmetrics-text"})
            assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
            assert "\nmonitor_dispatch_high_backlog 7.0\n" in answer.text
            assert "process_resident_memory_bytes" in answer.text
            assert (await http.get("/")).status_code == 404
            assert (await http.post("/metrics")).status_code == 404
        with pytest.raises(httpx.ConnectError):
            await http.get("/metrics")


async def test_a_taken_port_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortTaken, match="WORKER_METRICS_PORT"):
            async with serve_metrics("127.0.0.1", port, Readings(Source())):
                pass


async def test_port_zero_serves_nothing() -> None:
    source = Source()
    async with serve_metrics("127.0.0.1", 0, Readings(source)):
        pass
    assert source.asked == 0
