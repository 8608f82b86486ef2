"""What RabbitMQ carries between our own processes: hints and orders down, results up.

2-desktop §2.1, 3-results §3.2.
"""

from datetime import datetime
from typing import Final

import msgspec

DISPATCH_EXCHANGE: Final = "desktop.task.dispatch"
INGEST_EXCHANGE: Final = "monitor.result"
INGEST_DEAD_LETTER_QUEUE: Final = "monitor.result.ingest.dlq"
OUTBOX_ID_HEADER: Final = "x-giveway-outbox-id"


def ingest_queue(shard: int) -> str:
    """`monitor.result.ingest.{n}`."""
    return f"monitor.result.ingest.{shard}"


class TaskHint(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="task_available"):
    """Downward: an execution task waits for its lease and push at the hub that has the client."""

    task_id: str
    client_id: str


class ControlHint(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="task_control"):
    """Downward: an order for a client; the hub forwards it."""

    client_id: str
    task_id: str
    control: str
    reason: str | None = None
    interrupt_generation: int = 0
    replacement_task_id: str | None = None
    kind: str = "monitor"


class ClientClosed(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="client_control"):
    """Downward: close this client's connection (its token was revoked, or a newer connection has taken over).

    `epoch`: close only connections older than it; None closes any.
    """

    client_id: str
    code: int
    epoch: int | None = None


class ProxyHint(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="proxy_request"):
    """Downward: a page of the client is to make an HTTP call. A hint: the hub reads whether, and what, it still is."""

    client_id: str
    call_id: str


DispatchMessage = TaskHint | ControlHint | ClientClosed | ProxyHint


class ResultMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Upward: one attempt's outcome. The AMQP message id is the attempt id.

    `raw` is the provider's body as the desktop saw it (≤ 1 MB); None for a failure without one.
    """

    attempt_id: str
    task_id: str
    monitor_task_id: int
    tenant_id: int
    client_id: str
    # succeeded | failed: what the desktop says; ingest still judges the body.
    outcome: str
    received_at: datetime
    raw: str | None = None
    content_type: str | None = None
    error: str | None = None
    model: str | None = None
    request_id: str | None = None
    phase_times: dict[str, float] = {}
