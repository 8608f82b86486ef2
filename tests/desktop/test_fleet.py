"""Many desktops in one process (2-desktop §2.4)."""

import asyncio
from pathlib import Path
from uuid import uuid4

from desktop.config import DesktopConfig
from desktop.events import EventKind
from desktop.fleet import run_fleet
from desktop.recorded import load_answers, samples_folder
from desktop.replay import ReplayDriver
from domain import protocol
from domain.protocol import CloseCode, Hello
from tests.desktop.frames import available
from tests.desktop.hub import TOKEN, Hub, Lease
from tests.desktop.stepdriver import StepDriver
from tests.desktop.waiting import Record


def configs(hub: Hub, state: Path, count: int, token: str = TOKEN) -> list[DesktopConfig]:
    return [
        DesktopConfig(
            client_id=str(uuid4()),
            token=token,
            ws_url=hub.ws_url,
            api_url=hub.api_url,
            state_dir=state,
            driver=StepDriver(),
        )
        for _ in range(count)
    ]


async def test_a_fleet_connects_works_and_stops_on_demand(hub: Hub, tmp_path: Path) -> None:
    record, stop = Record(), asyncio.Event()
    fleet = asyncio.create_task(run_fleet(configs(hub, tmp_path, 20), record, stop=stop))
    await record.seen(EventKind.CONNECTED, count=20)
    tasks = [available() for _ in hub.sockets]
    for socket, task in zip(hub.sockets, tasks, strict=True):
        hub.leases[task.task_id] = Lease(task, status="pushed")
        await socket.send(protocol.encode(task))
    await record.seen(EventKind.RESULT_ACCEPTED, count=20)
    stop.set()
    assert await fleet == []
    assert len(hub.results) == len({event.client_id for event in record.of(EventKind.FINISHED)}) == 20


async def test_a_refused_client_leaves_the_others_running(hub: Hub, tmp_path: Path) -> None:
    record, stop = Record(), asyncio.Event()
    good, bad = configs(hub, tmp_path, 2), configs(hub, tmp_path, 1, token="wrong")
    fleet = asyncio.create_task(run_fleet([*good, *bad], record, stop=stop))
    await record.seen(EventKind.REFUSED)
    await record.seen(EventKind.CONNECTED, count=2)
    stop.set()
    assert [refused.code for refused in await fleet] == [CloseCode.UNAUTHENTICATED]
    assert len(hub.of(Hello)) == 2


async def test_shipped_samples_are_replayed_end_to_end(hub: Hub, tmp_path: Path) -> None:
    answers = load_answers(samples_folder())
    asked = answers.answers[0]
    record, stop = Record(), asyncio.Event()
    [config] = configs(hub, tmp_path, 1)
    replaying = DesktopConfig(
        client_id=config.client_id,
        token=config.token,
        ws_url=hub.ws_url,
        api_url=hub.api_url,
        state_dir=tmp_path,
        driver=ReplayDriver(answers, speed=0),
    )
    fleet = asyncio.create_task(run_fleet([replaying], record, stop=stop))
    await record.seen(EventKind.CONNECTED)
    task = available(platform=asked.platform, question=asked.question)
    await hub.push(task)
    await record.seen(EventKind.RESULT_ACCEPTED, task.task_id)
    stop.set()
    await fleet
    assert hub.results[0]["raw"].encode() == asked.path.read_bytes()


async def test_desktops_start_one_after_the_other_and_a_stop_waits_for_none_of_them(hub: Hub, tmp_path: Path) -> None:
    record, stop = Record(), asyncio.Event()
    fleet = asyncio.create_task(run_fleet(configs(hub, tmp_path, 3), record, stop=stop, spread=3600))
    await record.seen(EventKind.CONNECTED)
    stop.set()
    assert await fleet == []
    assert hub.connections == 1
