"""Result messages and answer bodies for tests of ingest."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import orjson

from domain.transport import ResultMessage
from tests.support.world import Desktop, Lease, World

RECEIVED_AT = datetime(2026, 4, 20, 8, 30, tzinfo=UTC)


def chat_answer(text: str, *, urls: Sequence[str] = (), model: str = "qwen-max") -> str:
    """An OpenAI-compatible chat completion, its citations as url annotations."""
    marks = [{"type": "url_citation", "url_citation": {"url": url, "title": f"About {url}"}} for url in urls]
    message: dict[str, Any] = {"role": "assistant", "content": text, "annotations": marks}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return orjson.dumps({"id": "chatcmpl-1", "object": "chat.completion", "model": model, "choices": [choice]}).decode()


def result(world: World, lease: Lease, client: Desktop, **fields: Any) -> ResultMessage:
    """What the API publishes for a lease: a success naming the brand Acme, unless `fields` say otherwise."""
    given = {
        "outcome": "succeeded",
        "received_at": RECEIVED_AT,
        "raw": chat_answer("Acme is the best choice."),
        **fields,
    }
    return ResultMessage(
        attempt_id=str(lease.attempt_id),
        task_id=str(lease.task_id),
        monitor_task_id=lease.business_id,
        tenant_id=given.pop("tenant_id", world.tenant_id),
        client_id=str(client.id),
        **given,
    )


def failure(world: World, lease: Lease, client: Desktop, error: str = "page did not load") -> ResultMessage:
    """A desktop's own failure, without a body."""
    return result(world, lease, client, outcome="failed", raw=None, error=error)


def encode(message: ResultMessage) -> bytes:
    """The body on the queue."""
    return msgspec.json.encode(message)
