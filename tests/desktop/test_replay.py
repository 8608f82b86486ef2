"""The replay driver: the recorded text exactly, in reproducible time (2-desktop §2.4)."""

import asyncio
import statistics
from pathlib import Path

import pytest

from desktop.driver import Answer, DriverFailure, RunContext
from desktop.recorded import RecordedAnswer, RecordedAnswers
from desktop.replay import ReplayDriver, Spread
from domain.phases import Phase
from tests.desktop.frames import available

QUESTION = "Which kettle is quiet?"


def recorded(path: Path) -> RecordedAnswers:
    return RecordedAnswers((RecordedAnswer(file=path.name, platform="deepseek", question=QUESTION, path=path),))


async def answer_of(driver: ReplayDriver, **changes: str) -> Answer:
    context = RunContext()
    await driver.run_phase(
        Phase.WAITING,
        available(
            question=changes.get("question", QUESTION),
            **{name: value for name, value in changes.items() if name != "question"},
        ),
        context,
    )
    assert context.answer is not None
    return context.answer


async def test_the_text_of_the_file_arrives_unchanged(tmp_path: Path) -> None:
    body = '\ufeffdata: {"a": 1}\r\n\r\ndata: 结束\n'
    path = tmp_path / "kettle.sse"
    path.write_bytes(body.encode())
    assert await answer_of(ReplayDriver(recorded(path), speed=0)) == Answer(body, "text/event-stream")


async def test_a_platform_without_recordings_fails_with_its_code(tmp_path: Path) -> None:
    path = tmp_path / "kettle.json"
    path.write_text("{}")
    with pytest.raises(DriverFailure) as failure:
        await answer_of(ReplayDriver(recorded(path), speed=0), platform="nowhere")
    assert (failure.value.code, failure.value.detail) == ("no_recorded_answer", "")


@pytest.mark.parametrize("body", [None, b"\xff\xfe broken"])
async def test_a_file_that_cannot_be_read_when_its_answer_is_due_fails(tmp_path: Path, body: bytes | None) -> None:
    path = tmp_path / "kettle.json"
    if body is not None:
        path.write_bytes(body)
    with pytest.raises(DriverFailure) as failure:
        await answer_of(ReplayDriver(recorded(path), speed=0))
    assert failure.value.code == "answer_unreadable"


def test_times_are_the_same_for_the_same_seed_and_task_and_differ_otherwise() -> None:
    answers = RecordedAnswers(())
    one, same, other = ReplayDriver(answers, seed=1), ReplayDriver(answers, seed=1), ReplayDriver(answers, seed=2)
    assert one.durations("a") == same.durations("a")
    assert one.durations("a") != one.durations("b")
    assert one.durations("a") != other.durations("a")


def test_a_question_takes_six_to_ten_seconds_most_of_them_waiting() -> None:
    drawn = [ReplayDriver(RecordedAnswers(()), seed=5).durations(str(task)) for task in range(1000)]
    totals = statistics.quantiles([sum(times.values()) for times in drawn], n=20)
    waits = statistics.quantiles([times[Phase.WAITING] for times in drawn], n=20)
    assert 5.5 < totals[0] < totals[-1] < 10.5
    assert 2.7 < waits[0] < waits[-1] < 6.6
    assert all(times[Phase.WAITING] == max(times.values()) for times in drawn)


@pytest.mark.parametrize("speed", [-1.0, float("nan"), float("inf")])
def test_a_speed_without_meaning_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="speed"):
        ReplayDriver(RecordedAnswers(()), speed=speed)


async def test_speed_zero_takes_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_sleep(seconds: float) -> None:
        raise AssertionError(f"slept {seconds} s")

    path = tmp_path / "kettle.json"
    path.write_text("{}")
    monkeypatch.setattr(asyncio, "sleep", no_sleep)
    driver = ReplayDriver(recorded(path), speed=0)
    for phase in Phase:
        await driver.run_phase(phase, available(question=QUESTION), RunContext())


async def test_a_long_phase_pauses_after_every_step_and_takes_no_longer_for_it(tmp_path: Path) -> None:
    path = tmp_path / "kettle.json"
    path.write_text("{}")
    profile = {phase: Spread(0.05 if phase is Phase.INPUTTING else 0.001, 0.0) for phase in Phase}
    driver = ReplayDriver(recorded(path), profile=profile, step=0.02)
    context, task = RunContext(), available(question=QUESTION)
    assert [await driver.run_phase(Phase.INPUTTING, task, context) for _ in range(3)] == [True, True, False]
    assert await driver.run_phase(Phase.SUBMITTING, task, context) is False


def test_a_step_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="step"):
        ReplayDriver(recorded(tmp_path), step=0)
