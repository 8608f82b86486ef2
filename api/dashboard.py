"""Overview and platform statistics from the daily projections (3-results §3.5).

Every rate carries what it is a rate of: a missing or failed answer is never "not mentioned", and a platform without
the capability is not zero.
"""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from api.access import SignedIn, reach_of
from api.fields import PathId
from api.state import State
from store import reads

router = APIRouter(prefix="/api/tenant/monitoring", tags=["dashboard"])

Days = Annotated[int, Query(ge=1, le=365, description="Business dates, today included")]
Scope = Literal["standard", "search"]

SUMS: Final = (
    "expected_count",
    "collected_count",
    "failed_count",
    "missing_count",
    "mentioned_count",
    "first_count",
    "position_sum",
    "positioned_count",
    "brand_mentions",
    "competitor_mentions",
    "citation_count",
    "own_citation_count",
)


class Visibility(BaseModel):
    """Counts of answers, and rates over the collected ones; null where there is nothing to take a rate of.

    expected = collected + failed + missing. `share_of_voice`: the brand's mentions among the brand's and its
    competitors'. `average_position`: 1 is first, over the answers that mention the brand.
    """

    expected_count: int
    collected_count: int
    failed_count: int
    missing_count: int
    mentioned_count: int
    mention_rate: float | None
    first_rate: float | None
    average_position: float | None
    share_of_voice: float | None
    citation_count: int | None
    own_citation_count: int | None


class DayVisibility(Visibility):
    business_date: date


class Overview(Visibility):
    """A brand over some days; `completeness` = collected of expected, null when nothing was expected."""

    brand_id: int
    scope: Scope
    days: int
    from_date: date
    to_date: date
    completeness: float | None
    daily: list[DayVisibility]


class PlatformVisibility(BaseModel):
    """`supported` false: the platform cannot do this, and `visibility` is null rather than zero."""

    platform: str
    name: str
    supported: bool
    visibility: Visibility | None


class PlatformStats(BaseModel):
    brand_id: int
    scope: Scope
    days: int
    items: list[PlatformVisibility]


@router.get("/brands/{brand_id}/overview")
async def read_overview(
    state: State, principal: SignedIn, brand_id: PathId, days: Days = 7, scope: Scope = "standard"
) -> Overview:
    """How visible the brand was, in all and day by day."""
    rows = await reads.overview_days(state.pool, reach_of(principal), brand_id, days, scope)
    total = _total(rows)
    return Overview(
        brand_id=brand_id,
        scope=scope,
        days=days,
        from_date=rows[0]["business_date"],
        to_date=rows[-1]["business_date"],
        completeness=_rate(total["collected_count"], total["expected_count"]),
        daily=[DayVisibility(business_date=row["business_date"], **_visibility(row)) for row in rows],
        **_visibility(total),
    )


@router.get("/brands/{brand_id}/platform-stats")
async def read_platform_stats(
    state: State, principal: SignedIn, brand_id: PathId, days: Days = 7, scope: Scope = "standard"
) -> PlatformStats:
    """The same by platform, those of the brand's plans without results included."""
    rows = await reads.platform_stats(state.pool, reach_of(principal), brand_id, days, scope)
    return PlatformStats(brand_id=brand_id, scope=scope, days=days, items=[_platform(row) for row in rows])


def _platform(row: Mapping[str, Any]) -> PlatformVisibility:
    visibility = None
    if row["supported"]:
        citations = {} if row["supports_citation"] else {"citation_count": None, "own_citation_count": None}
        visibility = Visibility(**{**_visibility(row), **citations})
    return PlatformVisibility(
        platform=row["platform"], name=row["name"], supported=row["supported"], visibility=visibility
    )


def _total(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    total = dict.fromkeys(SUMS, 0)
    for row in rows:
        for name in SUMS:
            total[name] += row[name]
    return total


def _visibility(sums: Mapping[str, Any]) -> dict[str, Any]:
    mentions = sums["brand_mentions"] + sums["competitor_mentions"]
    counts: dict[str, Any] = {name: sums[name] for name in SUMS if name in Visibility.model_fields}
    return {
        **counts,
        "mention_rate": _rate(sums["mentioned_count"], sums["collected_count"]),
        "first_rate": _rate(sums["first_count"], sums["collected_count"]),
        "average_position": _rate(sums["position_sum"], sums["positioned_count"]),
        "share_of_voice": _rate(sums["brand_mentions"], mentions),
    }


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None
