"""A result reaches the server once it exists, whatever happens between (2-desktop §2.2, §2.4)."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from desktop.driver import Answer, DriverFailure, RunContext
from desktop.events import EventKind
from desktop.results import MAX_BODY_BYTES, ResultStore, failed, succeeded
from domain.phases import Phase
from domain.protocol import Hello, TaskAvailable
from tests.desktop.frames import available
from tests.desktop.hub import Hub
from tests.desktop.stepdriver import ANSWER, StepDriver

AWAY = (503, "broker_unavailable")


def kept_files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "0198-desk" / "results").glob("*.json"))


async def test_a_result_is_posted_as_received_and_leaves_the_disk(hub: Hub, open_desk: Any, tmp_path: Path) -> None:
    desk = await open_desk()
    task = available()
    await hub.push(task)
    finished = await desk.record.seen(EventKind.FINISHED, task.task_id)
    assert (finished.outcome, finished.detail) == ("succeeded", "accepted")
    [result] = hub.results
    assert (result["raw"], result["attempt_id"], result["outcome"]) == (ANSWER, task.attempt_id, "succeeded")
    assert set(result["phase_times"]) == {phase.value for phase in Phase} - {"POSTING"}
    assert result["safe_point_interval_ms"] > 0
    assert kept_files(tmp_path) == []


async def test_after_503_the_result_is_sent_again_and_the_local_slot_is_free(
    hub: Hub, driver: StepDriver, open_desk: Any, tmp_path: Path
) -> None:
    desk = await open_desk(max_concurrent=1)
    hub.trouble("result", AWAY, AWAY, AWAY)
    task, following = available(), available()
    driver.hold(following.task_id, Phase.WAITING)
    await hub.push(task, following)
    assert (await desk.record.seen(EventKind.FINISHED, task.task_id)).detail == "kept"
    await driver.inside(following.task_id, Phase.WAITING)
    await desk.record.seen(EventKind.RESULT_ACCEPTED, task.task_id)
    assert [call.status for call in hub.called("result", task.task_id)] == [503, 503, 503, 202]
    assert kept_files(tmp_path) == []


async def test_a_result_left_by_a_crash_is_held_and_sent_after_the_restart(
    hub: Hub, open_desk: Any, tmp_path: Path
) -> None:
    desk = await open_desk()
    task = available()
    hub.trouble("result", *[AWAY] * 10_000)
    await hub.push(task)
    await desk.record.seen(EventKind.RESULT_KEPT, task.task_id)
    await desk.kill()
    assert [path.stem for path in kept_files(tmp_path)] == [task.attempt_id]

    again = await open_desk()
    [held] = hub.of(Hello)[-1].held
    assert (held.attempt_id, held.state, held.phase) == (task.attempt_id, "posting", "POSTING")
    hub.troubles.clear()
    await again.record.seen(EventKind.RESULT_ACCEPTED, task.task_id)
    assert [result["attempt_id"] for result in hub.results] == [task.attempt_id]
    assert kept_files(tmp_path) == []


@pytest.mark.parametrize("answer", [(409, "lease_lost"), (404, "not_found")])
async def test_a_result_the_server_refuses_for_good_is_discarded(
    hub: Hub, open_desk: Any, tmp_path: Path, answer: tuple[int, str]
) -> None:
    desk = await open_desk()
    hub.trouble("result", answer)
    task = available()
    await hub.push(task)
    discarded = await desk.record.seen(EventKind.RESULT_DISCARDED, task.task_id)
    assert discarded.detail == answer[1]
    assert kept_files(tmp_path) == []


@pytest.mark.parametrize(
    ("answer", "error"), [((413, "payload_too_large"), "result_too_large"), ((422, "invalid_input"), "result_rejected")]
)
async def test_a_refused_body_is_replaced_by_a_failure(
    hub: Hub, open_desk: Any, answer: tuple[int, str], error: str
) -> None:
    desk = await open_desk()
    hub.trouble("result", answer)
    task = available()
    await hub.push(task)
    await desk.record.seen(EventKind.RESULT_ACCEPTED, task.task_id)
    [result] = hub.results
    assert (result["outcome"], result["error"], result["raw"]) == ("failed", error, None)


async def test_a_body_over_the_bound_is_never_posted(hub: Hub, driver: StepDriver, open_desk: Any) -> None:
    desk = await open_desk()
    driver.raw = '"' * 600_000  # 1.2 MB once escaped
    task = available()
    await hub.push(task)
    await desk.record.seen(EventKind.RESULT_ACCEPTED, task.task_id)
    [call] = hub.called("result")
    assert call.size < MAX_BODY_BYTES
    assert (call.body["outcome"], call.body["error"]) == ("failed", "result_too_large")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (DriverFailure("login_required", "deepseek"), "login_required: deepseek"),
        (RuntimeError("page crashed"), "driver_error: RuntimeError"),
    ],
)
async def test_a_question_that_cannot_be_answered_is_posted_as_failed(
    hub: Hub, open_desk: Any, error: Exception, expected: str
) -> None:
    class Broken(StepDriver):
        async def run_phase(self, phase: Phase, task: TaskAvailable, context: RunContext) -> None:
            if phase is Phase.AUTHENTICATING:
                raise error

    broken = Broken()
    desk = await open_desk(driver=broken)
    task = available()
    await hub.push(task)
    await desk.record.seen(EventKind.RESULT_ACCEPTED, task.task_id)
    [result] = hub.results
    assert (result["outcome"], result["error"]) == ("failed", expected)
    assert broken.released == [task.task_id]


async def test_an_answer_json_cannot_carry_is_posted_as_failed(hub: Hub, driver: StepDriver, open_desk: Any) -> None:
    desk = await open_desk()
    driver.raw = "half a pair: \ud800"
    task = available()
    await hub.push(task)
    await desk.record.seen(EventKind.RESULT_ACCEPTED, task.task_id)
    assert hub.results[0]["error"].startswith("answer_unusable")


async def test_a_full_disk_does_not_keep_the_result_from_the_server(
    hub: Hub, open_desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: ResultStore, result: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ResultStore, "_save", full)
    desk = await open_desk()
    hub.trouble("result", AWAY)
    task = available()
    await hub.push(task)
    await desk.record.seen(EventKind.RESULT_ACCEPTED, task.task_id)


async def test_the_orderly_end_posts_answers_and_gives_waiting_leases_back(
    hub: Hub, driver: StepDriver, open_desk: Any
) -> None:
    desk = await open_desk(max_concurrent=2)
    answered, asking, waiting = available(), available(), available()
    driver.hold(answered.task_id, Phase.PARSING)
    driver.hold(asking.task_id, Phase.WAITING)
    await hub.push(answered, asking)
    await driver.inside(answered.task_id, Phase.PARSING)
    await driver.inside(asking.task_id, Phase.WAITING)
    await hub.push(waiting)
    await desk.record.seen(EventKind.FRAME_RECEIVED, waiting.task_id)
    ending = asyncio.create_task(desk.stop())
    await driver.stopped(asking.task_id)
    driver.let(answered.task_id)
    await ending
    assert [result["attempt_id"] for result in hub.results] == [answered.attempt_id]
    assert {call.task_id: call.status for call in hub.called("cancel")} == {waiting.task_id: 200, asking.task_id: 200}
    assert driver.phases(asking.task_id, "cancelled") == [Phase.WAITING]


async def test_the_orderly_end_can_let_running_questions_finish(hub: Hub, driver: StepDriver, open_desk: Any) -> None:
    desk = await open_desk()
    task = available()
    driver.hold(task.task_id, Phase.WAITING)
    await hub.push(task)
    await driver.inside(task.task_id, Phase.WAITING)
    ending = asyncio.create_task(desk.stop(finish=True))
    driver.let(task.task_id)
    await ending
    assert [result["attempt_id"] for result in hub.results] == [task.attempt_id]


async def test_an_unreadable_file_is_set_aside_and_the_rest_is_loaded(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "results")
    good = succeeded(available(), Answer(ANSWER), {Phase.WAITING: 12.5})
    await store.save(good)
    (tmp_path / "results" / "0198-half.json").write_text('{"task_id": "x"')
    assert await store.load() == [good]
    assert (tmp_path / "results" / "0198-half.bad").exists()


async def test_a_kept_result_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "results")
    await store.save(failed(available(), DriverFailure("no_answer"), {}))
    [path] = (tmp_path / "results").iterdir()
    assert path.stat().st_mode & 0o077 == 0
    assert json.loads(path.read_text())["call"]["error"] == "no_answer"
