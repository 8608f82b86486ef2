"""Frames as the hub would send them."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from domain.ids import new_uuid
from domain.lanes import Kind, Lane, rule_of
from domain.protocol import Control, TaskAvailable, TaskControl

NOON = datetime(2026, 4, 20, 12, tzinfo=UTC)


def available(lane: Lane = Lane.NORMAL, **changes: Any) -> TaskAvailable:
    """A task of the lane with a fresh lease; `changes` are fields of the frame."""
    rule = rule_of(Kind.MONITOR, lane)
    fields: dict[str, Any] = {
        "id": str(new_uuid()),
        "kind": "monitor",
        "task_id": str(uuid4()),
        "target_client_id": str(uuid4()),
        "priority": rule.default,
        "lane": lane.value,
        "lane_weight": rule.weight,
        "status": "queued",
        "scheduler_group_key": None,
        "business_date": "2026-04-20",
        "interrupt_generation": 0,
        "updated_at": NOON,
        "enqueued_at": NOON,
        "source": "collect_now" if lane is Lane.HIGH else "daily_schedule",
        "owner": "desktop_tasks",
        "attempt": 1,
        "attempt_id": str(new_uuid()),
        "lease_token": uuid4().hex + uuid4().hex,
        "lease_expires_at": NOON + timedelta(seconds=120),
        "platform": "deepseek",
        "question": "Which kettle is quiet?",
    }
    return TaskAvailable(**{**fields, **changes})


def control(task_id: str, order: Control, generation: int) -> TaskControl:
    """An order about a task."""
    return TaskControl(
        id=str(new_uuid()),
        kind="monitor",
        task_id=task_id,
        target_client_id=str(uuid4()),
        control=order,
        reason="collect_now_preempt",
        interrupt_generation=generation,
        replacement_task_id=None,
        updated_at=NOON,
    )


def interrupt(task_id: str, generation: int) -> TaskControl:
    return control(task_id, Control.INTERRUPT_REQUESTED, generation)
