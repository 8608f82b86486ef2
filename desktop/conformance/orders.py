"""Frames as a hub would send them: tasks with a lease, and orders about them."""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from domain.ids import new_uuid
from domain.lanes import Kind, Lane, rule_of
from domain.legacy import ExecutionOwner, wire_id
from domain.protocol import LEASE_SECONDS, Control, TaskAvailable, TaskControl

QUESTION = "Which kettle is quiet? (a question of the conformance suite)"
REASON = "collect_now_preempt"


def frame_id() -> str:
    """A fresh id of a frame."""
    return str(new_uuid())


def lease_end() -> datetime:
    """When a lease that is given now runs out."""
    return datetime.now(UTC) + timedelta(seconds=LEASE_SECONDS)


@dataclass(frozen=True, slots=True)
class TaskMaker:
    """Makes tasks for one client; `platform` and `question` are what its driver can ask."""

    client_id: str
    platform: str
    question: str = QUESTION

    def task(self, lane: Lane = Lane.NORMAL, **changes: Any) -> TaskAvailable:
        """A task of the lane with a fresh lease; `changes` are fields of the frame."""
        rule, now = rule_of(Kind.MONITOR, lane), datetime.now(UTC)
        fields: dict[str, Any] = {
            "id": frame_id(),
            "kind": Kind.MONITOR.value,
            "task_id": str(new_uuid()),
            "target_client_id": self.client_id,
            "priority": rule.default,
            "lane": lane.value,
            "lane_weight": rule.weight,
            "status": "queued",
            "scheduler_group_key": None,
            "business_date": now.date().isoformat(),
            "interrupt_generation": 0,
            "updated_at": now,
            "enqueued_at": now,
            "source": "collect_now" if lane is Lane.HIGH else "daily_schedule",
            "owner": ExecutionOwner.DESKTOP_TASKS.value,
            "attempt": 1,
            "attempt_id": str(new_uuid()),
            "lease_token": secrets.token_urlsafe(32),
            "lease_expires_at": lease_end(),
            "platform": self.platform,
            "question": self.question,
        }
        return TaskAvailable(**{**fields, **changes})

    def legacy(self) -> TaskAvailable:
        """A legacy task as a pull leases it."""
        number = uuid4().int % 10**9
        return self.task(task_id=wire_id(number), owner=ExecutionOwner.LEGACY.value, status="leased")

    def order(self, task_id: str, control: Control, generation: int) -> TaskControl:
        """An order about a task."""
        return TaskControl(
            id=frame_id(),
            kind=Kind.MONITOR.value,
            task_id=task_id,
            target_client_id=self.client_id,
            control=control,
            reason=REASON,
            interrupt_generation=generation,
            replacement_task_id=None,
            updated_at=datetime.now(UTC),
        )
