"""Hundreds of reference desktops in one process on a real hub: all are served, nothing is left (2-desktop §2.4)."""

import asyncio
import os
from collections import Counter
from pathlib import Path

from desktop.config import DesktopConfig, Timings
from desktop.events import EventKind
from desktop.fleet import run_fleet
from tests.desktop.stepdriver import StepDriver
from tests.desktop.waiting import Record
from tests.hub.conftest import Rig
from tests.support.broker import until

COUNT = 200
# What the test's own machinery opens in the meantime.
SOME = 40


def configs(rig: Rig, state: Path) -> list[DesktopConfig]:
    known = [rig.backend.register() for _ in range(COUNT)]
    return [
        DesktopConfig(
            client_id=str(client.client_id),
            token=token,
            ws_url=rig.url(),
            api_url="http://127.0.0.1:9",
            state_dir=state,
            driver=StepDriver(),
            timings=Timings(heartbeat=2.0),
        )
        for token, client in known
    ]


async def test_two_hundred_desktops_come_beat_and_go_without_a_trace(rig: Rig, tmp_path: Path) -> None:
    tasks, files = len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))
    record, stop = Record(), asyncio.Event()
    fleet = asyncio.create_task(run_fleet(configs(rig, tmp_path), record, stop=stop, spread=0.2))
    await record.seen(EventKind.CONNECTED, count=COUNT)
    # Both ends of every socket are in this process.
    assert len(os.listdir("/proc/self/fd")) - files <= 2 * COUNT + SOME

    def all_beat_twice() -> bool:
        beats = Counter(beat.client_id for fold in rig.backend.beats for beat in fold)
        return all(beats[client] >= 2 for client in rig.backend.online)

    await until(all_beat_twice)
    assert len(rig.backend.online) == COUNT
    stop.set()
    assert await fleet == []

    def all_gone() -> bool:
        return not rig.backend.online and len(asyncio.all_tasks()) <= tasks + SOME

    await until(all_gone)
    assert len(os.listdir("/proc/self/fd")) - files <= SOME
    assert {end.code for fold in rig.backend.ends for end in fold} == {1000}
    # A folder each, and no file without a result.
    assert [path for path in await asyncio.to_thread(lambda: list(tmp_path.rglob("*"))) if not path.is_dir()] == []
