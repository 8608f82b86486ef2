"""The fleet's gauges are read from the database with bounded labels (2-desktop §2.1)."""

import pytest
from prometheus_client import CollectorRegistry

from store.database import Pool
from store.gauges import read_gauges
from telemetry.readings import Readings
from tests.support.world import World, ago


async def test_states_slots_phases_logins_versions_and_abort_rates_are_shown(pool: Pool) -> None:
    world = await World.create(pool)
    busy, calm, _ = await world.client(max_concurrent=3), await world.client(), await world.client(online=False)
    lease = await world.leased(busy, status="in_progress")
    await world.set("desktop_tasks", lease.task_id, phase="WAITING")
    await world.set("desktop_clients", busy.id, version="1.4", platform_sessions={"qwen": "blocked", "made up": "odd"})
    await world.set("desktop_clients", calm.id, version="1.4")
    ended = await world.leased(busy, status="in_progress", platform="kimi")
    await pool.execute(
        "update desktop_task_attempts set ended_at = $2, outcome = 'returned' where id = $1",
        ended.attempt_id,
        ago(minutes=5),
    )
    readings = Readings(lambda: read_gauges(pool))
    registry = CollectorRegistry()
    registry.register(readings)
    await readings.refresh()

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert (value("giveway_desktop_clients", state="online"), value("giveway_desktop_clients", state="offline")) == (
        2,
        1,
    )
    assert value("giveway_desktop_clients", state="lost") == 0
    assert (value("giveway_desktop_slots", kind="used"), value("giveway_desktop_slots", kind="total")) == (2, 5)
    assert value("giveway_desktop_running", phase="WAITING") == 1
    assert value("giveway_desktop_sessions", platform="qwen", health="blocked") == 1
    # What a desktop makes up is no series of its own.
    assert value("giveway_desktop_sessions", platform="other", health="other") == 1
    assert value("giveway_desktop_versions", version="1.4") == 2
    assert value("giveway_desktop_abort_rate", stat="max") == pytest.approx(1.0)
