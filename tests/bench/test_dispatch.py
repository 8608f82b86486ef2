"""The dispatch benchmark in small: it measures real rounds, checks itself, and says what it was asked for."""

import asyncio
import io

import orjson
import pytest
from rich.console import Console

from bench.dispatch import Options, run_bench
from tests.conftest import Servers

SMALL = Options(backlogs=(60, 120), rounds=1, tenants=3, desktops=2, peer_jobs=20)


def test_the_figures_stand_beside_their_limit_and_their_peers(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", servers.database_url)
    figures = asyncio.run(run_bench(SMALL, Console(file=io.StringIO())))
    assert [one["backlog"] for one in figures["one_coordinator"]] == [60, 120]
    assert [one["backlog"] for one in figures["two_coordinators"]] == [60, 120]
    for one in (*figures["one_coordinator"], *figures["two_coordinators"]):
        assert one["tasks_per_second"] > 0
        assert one["round_ms"]["n"] == 1
    assert [peer["name"] for peer in figures["peers"]] == ["procrastinate", "pgqueuer"]
    assert set(figures["rate_to_peers"]) == {"procrastinate", "pgqueuer"}
    assert all(peer["tasks_per_second"] > 0 and peer["version"] for peer in figures["peers"])
    assert figures["limit"]["tasks_per_second"] > 0
    assert figures["round_time_ratio"] > 0
    assert figures["coordinators"] in (1, 2)
    assert orjson.loads(orjson.dumps(figures)) == figures
    assert set(figures["met"]) == set(figures["targets"]) == {"tasks_per_second", "round_time_ratio"}
