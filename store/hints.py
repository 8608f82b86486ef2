"""Why a request does not move: what its hint says, judged by the rows as they are (1-dispatch §1.3, §1.5)."""

from collections.abc import Collection
from uuid import UUID

from domain.dispatch_settings import PlatformScope
from store.client_choice import open_to_high
from store.database import Connection
from store.settings import read_dispatch_settings, read_platform_limits
from store.statements import statements

SQL = statements("hints")


async def judge_platforms(connection: Connection, request_ids: Collection[UUID]) -> None:
    """Set or take away `waiting_for_platform` on these requests; the caller has them locked. Idempotent."""
    if not request_ids:
        return
    settings = await read_dispatch_settings(connection)
    limits = await read_platform_limits(connection, settings)
    await connection.execute(
        SQL["judge_platforms"],
        sorted(request_ids),
        list(limits),
        [limit.max_concurrent for limit in limits.values()],
        settings.platform_concurrency_scope is PlatformScope.GLOBAL,
    )


async def hint_of_undispatched(connection: Connection, request_id: UUID, tenant_id: int) -> str | None:
    """What to tell somebody who has waited 30 s for the first dispatch; None when there was one."""
    await judge_platforms(connection, [request_id])
    settings = await read_dispatch_settings(connection)
    limits = await read_platform_limits(connection, settings)
    platforms = await open_to_high(connection, tenant_id, settings, limits)
    hint: str | None = await connection.fetchval(SQL["hint_of_undispatched"], request_id, sorted(platforms))
    return hint
