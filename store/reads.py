"""Dashboard reads from the daily projections (3-results §3.5). Sums here, rates in the API."""

from typing import Any, Final

from store.catalog import Reach, read_brand
from store.database import Pool
from store.statements import statements

SQL = statements("reads")

# 3-results §3.1: which run mode a scope reads; ui_sample never enters.
RUN_MODES: Final = {"standard": "api_standard", "search": "api_search_grounded"}


async def overview_days(pool: Pool, reach: Reach, brand_id: int, days: int, scope: str) -> list[dict[str, Any]]:
    """One row a business date, the newest last; a day without any row counts zero expected. NotFound for the brand."""
    await read_brand(pool, reach, brand_id)
    return [
        dict(row) for row in await pool.fetch(SQL["overview_days"], reach.tenant_id, brand_id, days, RUN_MODES[scope])
    ]


async def platform_stats(pool: Pool, reach: Reach, brand_id: int, days: int, scope: str) -> list[dict[str, Any]]:
    """One row for each platform that the brand's plans name or that has results, with its capabilities."""
    await read_brand(pool, reach, brand_id)
    return [
        dict(row) for row in await pool.fetch(SQL["platform_stats"], reach.tenant_id, brand_id, days, RUN_MODES[scope])
    ]


async def list_platforms(pool: Pool) -> list[dict[str, Any]]:
    """The platforms that can be asked, with their capabilities; the same for every tenant."""
    return [dict(row) for row in await pool.fetch(SQL["list_platforms"])]
