"""Histories that earlier code wrote are replayed on today's: a difference would break open runs (faults.md)."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from tests.replay.histories import files, read, workflow_type
from workflows.collect_now import CollectNow
from workflows.reconcile import Reconcile
from workflows.resident import Resident
from workflows.scan_plans import ScanPlans
from workflows.scheduled_batch import ScheduledBatch
from workflows.tune_timeouts import TuneTimeouts

WORKFLOWS = (CollectNow, Reconcile, Resident, ScanPlans, ScheduledBatch, TuneTimeouts)

UPSERT = "upsertWorkflowSearchAttributesEventAttributes"


def replayer() -> Replayer:
    return Replayer(workflows=WORKFLOWS, data_converter=pydantic_data_converter)


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
async def test_a_recorded_history_replays(path: Path) -> None:
    await replayer().replay_workflow(read(path))


def test_every_workflow_is_recorded() -> None:
    assert {workflow_type(path) for path in files()} == {workflow.__name__ for workflow in WORKFLOWS}


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_a_recorded_history_names_no_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not [name for name in (socket.gethostname(), str(Path.cwd()), str(Path.home())) if f'"{name}' in text]
    assert not {"identity", "stackTrace"} & set(_keys(json.loads(text)))


async def test_a_history_that_the_code_could_not_have_written_is_refused() -> None:
    """The guard itself: where the code shows its status, this history started a timer."""
    recorded = json.loads(next(path for path in files() if path.stem == "collect_now_finished").read_text())
    event = next(each for each in recorded["history"]["events"] if UPSERT in each)
    timer = {"timerId": "9", "startToFireTimeout": "1s"}
    timer["workflowTaskCompletedEventId"] = event.pop(UPSERT)["workflowTaskCompletedEventId"]
    event |= {"eventType": "EVENT_TYPE_TIMER_STARTED", "timerStartedEventAttributes": timer}
    with pytest.raises(NondeterminismError):
        await replayer().replay_workflow(WorkflowHistory.from_json(recorded["workflow_id"], recorded["history"]))


def _keys(value: Any) -> list[str]:
    if isinstance(value, list):
        return [key for item in value for key in _keys(item)]
    if isinstance(value, dict):
        return [*value, *(key for item in value.values() for key in _keys(item))]
    return []
