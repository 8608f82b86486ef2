"""The rulings of 2-desktop §2.2: what a result does to attempt, execution row and business task."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from domain.settlement import DUPLICATE, Case, Ruling, TaskEffect, rule_failure, rule_success

EXECUTION = UUID(int=1)
NEWER = UUID(int=2)
BEGAN = datetime(2026, 4, 20, 8, tzinfo=UTC)

RUNNING = Case(
    attempt_id=UUID(int=9),
    attempt_outcome=None,
    began_at=BEGAN,
    execution_id=EXECUTION,
    execution_status="in_progress",
    is_current=True,
    source="daily_schedule",
    task_id=1,
    task_status="pending",
    active_task_id=EXECUTION,
    request_accepted_at=None,
    dispatch_attempts=0,
    max_attempts=3,
)
REVOKED = replace(RUNNING, attempt_outcome="revoked", execution_status="aborted", active_task_id=NEWER)
LATER = BEGAN + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("case", "ruling"),
    [
        pytest.param(RUNNING, Ruling("succeeded", "succeeded", TaskEffect.COMPLETE), id="running"),
        pytest.param(
            replace(RUNNING, attempt_outcome="lease_expired", execution_status="unknown"),
            Ruling("succeeded", "succeeded", TaskEffect.COMPLETE),
            id="lease-ran-out",
        ),
        pytest.param(REVOKED, Ruling("succeeded", None, TaskEffect.COMPLETE), id="late-success-is-taken"),
        pytest.param(
            replace(RUNNING, attempt_outcome="failed", execution_status="failed", active_task_id=None),
            Ruling("succeeded", None, TaskEffect.COMPLETE),
            id="replay-of-a-dead-letter",
        ),
        pytest.param(replace(RUNNING, attempt_outcome="succeeded"), DUPLICATE, id="duplicate"),
        pytest.param(
            replace(REVOKED, task_status="completed"), Ruling("succeeded"), id="task-already-completed-keeps-facts-only"
        ),
        pytest.param(
            replace(REVOKED, request_accepted_at=LATER),
            Ruling("succeeded"),
            id="older-than-the-request-does-not-satisfy",
        ),
        pytest.param(
            replace(RUNNING, request_accepted_at=LATER),
            Ruling("succeeded", "succeeded", TaskEffect.RELEASE),
            id="older-but-still-active-is-released",
        ),
        pytest.param(
            replace(RUNNING, request_accepted_at=LATER, source="collect_now"),
            Ruling("succeeded", "succeeded", TaskEffect.COMPLETE),
            id="adopted-satisfies",
        ),
        pytest.param(
            replace(RUNNING, request_accepted_at=BEGAN),
            Ruling("succeeded", "succeeded", TaskEffect.COMPLETE),
            id="started-after-the-accept-satisfies",
        ),
        pytest.param(
            replace(RUNNING, execution_id=None, execution_status=None, active_task_id=None, task_status="received"),
            Ruling("succeeded", None, TaskEffect.COMPLETE),
            id="legacy",
        ),
    ],
)
def test_a_success_is_ruled(case: Case, ruling: Ruling) -> None:
    assert rule_success(case) == ruling


@pytest.mark.parametrize(
    ("case", "ruling"),
    [
        pytest.param(RUNNING, Ruling("failed", "failed", TaskEffect.RETRY), id="counts-and-retries"),
        pytest.param(
            replace(RUNNING, dispatch_attempts=2), Ruling("failed", "failed", TaskEffect.FAIL), id="attempts-used-up"
        ),
        pytest.param(
            replace(RUNNING, request_accepted_at=BEGAN),
            Ruling("failed", "failed", TaskEffect.RETRY_HIGH),
            id="open-request-stays-high",
        ),
        pytest.param(replace(RUNNING, attempt_outcome="failed"), DUPLICATE, id="duplicate"),
        pytest.param(replace(RUNNING, attempt_outcome="succeeded"), DUPLICATE, id="never-over-a-success"),
        pytest.param(REVOKED, DUPLICATE, id="revoked-was-counted-when-it-was-revoked"),
        pytest.param(
            replace(RUNNING, attempt_outcome="preempted", execution_status="aborted"),
            DUPLICATE,
            id="preempted-is-not-counted",
        ),
        pytest.param(
            replace(RUNNING, task_status="expired", active_task_id=None),
            Ruling("failed", "failed"),
            id="finished-task-is-left-alone",
        ),
        pytest.param(
            replace(RUNNING, execution_id=None, execution_status=None, active_task_id=None, task_status="leased"),
            Ruling("failed", "failed", TaskEffect.RETRY),
            id="legacy",
        ),
    ],
)
def test_a_failure_is_ruled(case: Case, ruling: Ruling) -> None:
    assert rule_failure(case) == ruling


def test_a_lost_lease_counts_like_a_failure_under_its_own_name() -> None:
    assert rule_failure(RUNNING, "revoked") == Ruling("revoked", "failed", TaskEffect.RETRY)
