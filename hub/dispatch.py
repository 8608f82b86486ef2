"""From dispatch messages to sessions."""

import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import UUID

from domain.ids import new_uuid
from domain.legacy import TaskId, parse_task_id
from domain.protocol import Control, TaskControl
from domain.transport import ClientClosed, ControlHint, DispatchMessage, ProxyHint, TaskHint
from hub.registry import Registry

log = logging.getLogger(__name__)


async def dispatch(messages: AsyncIterator[DispatchMessage | None], registry: Registry) -> None:
    """Pass messages on until cancelled. A bad one is logged; a gap has every client sent a snapshot."""
    async for message in messages:
        if message is None:
            log.warning("dispatch messages may be lost: %d clients get a snapshot", len(registry))
            for session in registry:
                session.errands.resync()
            continue
        try:
            deliver(message, registry)
        except ValueError as error:
            log.error("dispatch message dropped: %s", error)
        except Exception:
            # Whatever one client's connection does wrong, the others are still to be told of their work.
            log.exception("dispatch message dropped")


def deliver(message: DispatchMessage, registry: Registry) -> None:
    """Pass one message on; for a client that is not here it is nothing. Raises ValueError for a malformed id."""
    session = registry.find(UUID(message.client_id))
    if session is None:
        return
    match message:
        case TaskHint():
            session.errands.hint(_task_id(message.task_id))
        case ControlHint():
            session.order(_control_frame(message))
        case ProxyHint():
            session.errands.proxy_hint(UUID(message.call_id))
        case ClientClosed():
            if message.epoch is None or session.epoch < message.epoch:
                session.close(message.code, "closed by the server")


def _task_id(text: str) -> TaskId:
    task_id = parse_task_id(text)
    if task_id is None:
        raise ValueError(f"{text!r} is no task id")
    return task_id


def _control_frame(message: ControlHint) -> TaskControl:
    return TaskControl(
        id=str(new_uuid()),
        kind=message.kind,
        task_id=message.task_id,
        target_client_id=message.client_id,
        control=Control(message.control),
        reason=message.reason,
        interrupt_generation=message.interrupt_generation,
        replacement_task_id=message.replacement_task_id,
        updated_at=datetime.now(UTC),
    )
