"""Every operation of the API, with a body that would be taken: what the tests over all routes go through."""

from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI

from tests.support.world import World

LEASE = {"lease_token": "x" * 40}
# What a list that is always of something is asked for.
NEEDED = {"list_tasks": "?batch_id={batch_id}"}


@dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path, `{parameters}` still in it."""

    method: str
    path: str
    id: str

    def filled(self, values: dict[str, Any]) -> str:
        """The path with each parameter's value, and the query that it cannot do without."""
        return (self.path + NEEDED.get(self.id, "")).format(**values)


def operations(app: FastAPI) -> list[Operation]:
    """From the OpenAPI document, so that a new route is tested without being listed here."""
    return [
        Operation(method.upper(), path, operation["operationId"])
        for path, item in app.openapi()["paths"].items()
        for method, operation in item.items()
    ]


def sound_body(operation: Operation, world: World) -> dict[str, Any] | None:
    """A body that the operation takes; None for those without one."""
    interrupt = {**LEASE, "interrupt_generation": 1}
    result = {**LEASE, "attempt_id": "00000000-0000-7000-8000-000000000000", "outcome": "failed"}
    bodies: dict[str, dict[str, Any]] = {
        "create_brand": {"workspace_id": world.workspace_id, "name": "n", "aliases": [], "domains": []},
        "change_brand": {"name": "n", "aliases": [], "domains": []},
        "create_competitor": {"name": "n", "aliases": [], "domains": []},
        "create_topic": {"name": "n"},
        "create_keyword": {"text": "n", "topic_id": None},
        "create_question": {"text": "n", "keyword_id": None, "topic_id": None, "only_platforms": None},
        "add_questions": {"questions": [{"text": "n"}]},
        "change_question": {"text": "n", "keyword_id": None, "topic_id": None, "only_platforms": None, "active": True},
        "create_plan": {
            "name": "n",
            "cadence_kind": "cron",
            "cadence": "0 9 * * *",
            "time_zone": "UTC",
            "business_date_rule": "today",
            "run_mode": "api_standard",
            "collector_type": "desktop",
            "question_ids": None,
            "platforms": ["qwen"],
            "active": True,
        },
        "change_plan": {"name": "n", "cadence": "0 9 * * *", "platforms": ["qwen"], "question_ids": None},
        "collect_now": {
            "keyword_id": None,
            "question_ids": None,
            "platforms": None,
            "preempt": True,
            "wait_for_first_dispatch": False,
            "target_client_id": None,
        },
        "desktop_answer_proxy": {"status": 200},
        "put_badcase_label": {"is_answer": True, "mentions": [], "absence": False, "note": None},
        "register_client": {"workspace_id": world.workspace_id, "name": "n", "version": "1"},
        "rename_client": {"name": "n"},
        "change_setting": {"value": 10},
        "change_settings": {"values": {"retry_low_water": 10}},
        "change_platform": {
            "max_concurrent": 1,
            "interrupt_soft_timeout_ms": None,
            "interrupt_hard_timeout_ms": None,
            "paused": False,
        },
        "ops_pause": {"kind": "lane", "key": "normal", "drain": False},
        "ops_change_tenant": {"fair_weight": 1, "dispatch_per_minute": None, "paused": False},
        "ops_change_client": {"max_concurrent": 1, "max_queue_depth": None, "paused": False},
        "desktop_lease": {"count": 1},
        "desktop_start": LEASE,
        "desktop_extend": LEASE,
        "desktop_cancel": {**LEASE, "reason": "r"},
        "desktop_interrupt_ack": interrupt,
        "desktop_result": result,
    }
    return bodies.get(operation.id)
