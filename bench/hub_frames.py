"""What is pushed in the hub benchmark, to measure the same sizes on both servers and to read them at the client."""

import time
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import msgspec

from domain.protocol import Control, Snapshot, TaskAvailable, TaskControl, encode
from domain.transport import ControlHint

NOBODY: Final = str(UUID(int=0))
QUESTION: Final = "Which of the tools on the market is best for a small team, and why?"


class Stamped(msgspec.Struct, frozen=True):
    """The fields of a pushed frame that a measuring client looks at.

    `reason` of an order is the clock at its publish; a task is found again by its id.
    """

    type: str
    reason: str | None = None
    task_id: str | None = None
    last: bool = False


read_frame: Final = msgspec.json.Decoder(Stamped).decode


def now() -> str:
    """The host's monotonic clock in nanoseconds, always 19 digits: frames keep their size."""
    return f"{time.monotonic_ns():019d}"


def order_hint(client_id: str) -> ControlHint:
    """As the pump publishes it, stamped."""
    return ControlHint(
        client_id=client_id, task_id=NOBODY, control=Control.INTERRUPT_REQUESTED, reason=now(), interrupt_generation=1
    )


def an_order() -> str:
    """A frame as our hub writes it for an order."""
    return encode(
        TaskControl(
            id=NOBODY, kind="monitor", task_id=NOBODY, target_client_id=NOBODY, control=Control.INTERRUPT_REQUESTED,
            reason=now(), interrupt_generation=1, replacement_task_id=None, updated_at=datetime.now(UTC),
        )
    )  # fmt: skip


def a_task() -> str:
    """A frame as our hub writes it for a leased task; `collect_request_id` is where a stamp fits, of the same size."""
    moment = datetime.now(UTC)
    return encode(
        TaskAvailable(
            id=NOBODY, kind="monitor", task_id=NOBODY, target_client_id=NOBODY, priority=100, lane="normal",
            lane_weight=40, status="queued", scheduler_group_key="qid:1234", business_date=moment.date().isoformat(),
            interrupt_generation=0, updated_at=moment, enqueued_at=moment, source="daily_schedule",
            owner="desktop_tasks", attempt=1, attempt_id=NOBODY, lease_token="x" * 43, lease_expires_at=moment,
            platform="openai", question=QUESTION, collect_request_id=None, payload={},
        )
    )  # fmt: skip


def an_empty_snapshot(ref: str) -> str:
    """What a greeting is answered with when nothing waits."""
    return encode(Snapshot(id=NOBODY, ref=ref, page=0, last=True, connection_epoch=1, generation=0))


def stamped(size: int, kind: str) -> str:
    """A frame of so many bytes with the clock in it: what a bare server pushes."""
    bare = f'{{"type":"{kind}","reason":"{now()}","pad":""}}'
    return f'{bare[:-2]}{"x" * (size - len(bare))}"}}'
