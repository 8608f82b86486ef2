"""The hub benchmark in small: real processes, a real database and broker, everything that was pushed has come."""

import asyncio
import io
import os

import orjson
import pytest
from rich.console import Console

from bench.hub import Options, run_bench
from bench.hub_child import child
from bench.hub_figures import Footprint, Measured, Pushed, figures
from bench.hub_frames import a_task, an_order, read_frame, stamped
from domain.protocol import decode_server_frame
from tests.conftest import Servers

SMALL = Options(sockets=30, pushes_per_second=100, seconds=1, idle_seconds=1, warming_seconds=0.5)


def test_our_hub_and_a_bare_server_push_the_same_to_as_many_clients(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", servers.database_url)
    monkeypatch.setenv("AMQP_URL", servers.amqp_url)
    found = asyncio.run(run_bench(SMALL, Console(file=io.StringIO())))
    for one in (found["hub"], found["bare"]):
        assert (one["pushed"], one["came"], one["sockets_open_at_the_end"]) == (100, 100, 30)
        assert (one["orders_ms"]["n"], one["tasks_ms"]["n"]) == (50, 50)
        assert one["greetings_per_second"] > 0
    assert found["memory_ratio"] > 0
    assert found["broker_alone_ms"]["n"] == 100
    assert set(found["met"]) == set(found["targets"]) == {"memory_ratio", "push_p99_ms"}
    assert orjson.loads(orjson.dumps(found)) == found


def test_the_bare_servers_frames_have_the_sizes_of_ours_and_carry_their_stamp() -> None:
    for frame in (an_order(), a_task()):
        kind = read_frame(frame.encode()).type
        bare = stamped(len(frame), kind)
        assert len(bare) == len(frame)
        stamp = read_frame(bare.encode())
        assert stamp.type == kind
        assert int(stamp.reason or 0) > 0
        assert decode_server_frame(frame).id


def measured(half: int, all_of_them: int, milliseconds: list[float], *, published: int, still_open: int) -> Measured:
    at = [Footprint(pss, pss, 0.0, 1) for pss in (0, half, all_of_them)]
    pushed = Pushed(published, {"task_control": milliseconds, "task_available": []}, {}, still_open)
    return Measured(*at, *[at[-1]] * 3, 1.0, 1.0, pushed)


@pytest.mark.parametrize(
    ("ours", "memory", "latency"),
    [
        (measured(50, 180, [99.0] * 100, published=100, still_open=20), True, True),
        (measured(50, 181, [99.0] * 100, published=100, still_open=20), False, True),
        (measured(50, 180, [99.0] * 98 + [101.0] * 2, published=100, still_open=20), True, False),
        # One did not come, or one is no longer there: the rest proves nothing.
        (measured(50, 180, [99.0] * 99, published=100, still_open=20), False, False),
        (measured(50, 180, [99.0] * 100, published=100, still_open=19), False, False),
    ],
)
def test_the_targets_are_met_only_with_everything_there(ours: Measured, memory: bool, latency: bool) -> None:
    bare = measured(100, 200, [1.0] * 100, published=100, still_open=20)
    found = figures(20, 100.0, 1.0, {"task_control": 349, "task_available": 796}, ours, bare, [1.0])
    assert found["met"] == {"memory_ratio": memory, "push_p99_ms": latency}


def test_a_bare_server_that_lost_a_push_is_no_yardstick() -> None:
    ours = measured(50, 180, [1.0] * 100, published=100, still_open=20)
    bare = measured(100, 200, [1.0] * 99, published=100, still_open=20)
    found = figures(20, 100.0, 1.0, {"task_control": 349, "task_available": 796}, ours, bare, [1.0])
    assert found["met"] == {"memory_ratio": False, "push_p99_ms": False}


async def test_ctrl_c_at_the_terminal_leaves_the_end_of_its_processes_to_the_benchmark() -> None:
    async with child("bench.bare_hub", {}) as (server, _started):
        assert os.getpgid(server.pid) != os.getpgid(0)
