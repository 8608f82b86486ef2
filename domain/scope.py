"""The scope of a collect-now: canonical form and hash (1-dispatch §1.5 step 1)."""

import hashlib
from collections.abc import Iterable
from datetime import date
from typing import Any
from uuid import UUID

import orjson

from domain.messages import CollectNowScope


def canonical_scope(
    keyword_id: int | None = None,
    question_ids: Iterable[int] | None = None,
    platforms: Iterable[str] | None = None,
) -> CollectNowScope:
    """Ids and platforms sorted, without repeats. None means all; an empty list stays empty (an empty scope)."""
    return CollectNowScope(
        keyword_id=keyword_id,
        question_ids=None if question_ids is None else tuple(sorted(set(question_ids))),
        platforms=None if platforms is None else tuple(sorted(set(platforms))),
    )


def scope_hash(
    scope: CollectNowScope,
    *,
    run_modes: Iterable[str],
    business_date: date,
    preempt: bool,
    target_client_id: UUID | None,
) -> str:
    """SHA-256, hex, over the canonical scope. The same click has the same hash, whatever the order of its lists."""
    added = {"run_modes": sorted(set(run_modes)), "business_date": business_date.isoformat()}
    return _digest(_called(scope, preempt, target_client_id) | added)


def call_hash(scope: CollectNowScope, *, preempt: bool, target_client_id: UUID | None) -> str:
    """The same over what the caller sent alone: an Idempotency-Key stands for a call, whatever the plans say then."""
    return _digest(_called(scope, preempt, target_client_id))


def _called(scope: CollectNowScope, preempt: bool, target_client_id: UUID | None) -> dict[str, Any]:
    return {
        "keyword": scope.keyword_id,
        "questions": scope.question_ids,
        "platforms": scope.platforms,
        "preempt": preempt,
        "target": str(target_client_id) if target_client_id else None,
    }


def _digest(canonical: dict[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(canonical, option=orjson.OPT_SORT_KEYS)).hexdigest()
