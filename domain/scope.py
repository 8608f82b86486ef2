"""The scope of a collect-now: canonical form and hash (1-dispatch §1.5 step 1)."""

import hashlib
from collections.abc import Iterable
from datetime import date
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
    canonical = {
        "keyword": scope.keyword_id,
        "questions": scope.question_ids,
        "platforms": scope.platforms,
        "run_modes": sorted(set(run_modes)),
        "business_date": business_date.isoformat(),
        "preempt": preempt,
        "target": str(target_client_id) if target_client_id else None,
    }
    return hashlib.sha256(orjson.dumps(canonical, option=orjson.OPT_SORT_KEYS)).hexdigest()
