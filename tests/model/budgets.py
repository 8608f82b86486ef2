"""What a round may give, and a start may take: judged by the settings in force at that moment (1-dispatch §1.2–1.4)."""

from datetime import datetime
from typing import Any
from uuid import UUID

from domain.dispatch_settings import PlatformScope
from store.settings import read_dispatch_settings, read_platform_limits
from tests.model.state import LIVE, Model

# Everything that the round gave ($1: since), on either path, and everything that holds something.
_GIVEN = f"""
with held as (
    select d.id::text, d.tenant_id, d.target_client_id as client_id, d.ai_platform_id as platform, d.lane, d.status,
        case when d.control_flags ->> 'interrupt_requested' = 'true' then d.interrupt_request_id end as gives_way_to,
        t.collect_request_id as request_id, d.created_at as given_at, d.status = 'queued' as queued
    from desktop_tasks d join monitoring_collect_tasks t on t.id = d.monitor_task_id
    where d.{LIVE} and d.result_received_at is null
    union all
    select id::text, tenant_id, coalesce(leased_to_executor, target_client_id), ai_platform_id, dispatch_lane, status,
        null, collect_request_id, legacy_offered_at, status = 'pending'
    from monitoring_collect_tasks where status = 'leased' or (status = 'pending' and legacy_offer_expires_at > now())
), given as (select * from held where given_at > $1)
"""
# Each finds what the round should not have given. $2: is the platform counted over all tenants?
_RULES = {
    # A promised slot that its preemptor has taken is the victim's no longer, whoever was given something meanwhile.
    "more on a platform than its limit": """
        select g.id from given g
        where (select count(*) from held h where h.platform = g.platform and ($2 or h.tenant_id = g.tenant_id)
            and not exists (select from held x where x.request_id = h.gives_way_to and x.platform = h.platform
                and x.client_id = h.client_id))
          > (select l.most from unnest($3::text[], $4::int[]) as l(platform, most) where l.platform = g.platform)""",
    "scheduled work for a client with unfinished high work": """
        select g.id from given g join held h on h.client_id = g.client_id and h.lane = 'high'
        where g.lane <> 'high'""",
    "scheduled work over the depth of a queue": """
        select g.id from given g join desktop_clients c on c.id = g.client_id
        where g.lane <> 'high' and (select count(*) from held h where h.client_id = g.client_id and h.queued)
          > least(coalesce(c.max_queue_depth, $5::int), 40)""",
    "work for what is paused, gone, or not logged in": """
        select g.id from given g join desktop_clients c on c.id = g.client_id join tenants n on n.id = g.tenant_id
        left join platform_settings p on p.platform_id = g.platform
        where c.paused or n.paused or coalesce(p.paused, false) or g.lane = any($6::text[]) or not c.online
          or coalesce(c.platform_sessions ->> g.platform, 'healthy') <> 'healthy'""",
    "a tenant of another coordinator": "select g.id from given g where g.tenant_id % $7::int <> $8::int",
}
_CHECK = _GIVEN + "\nunion all\n".join(
    f"select '{name}' as rule, array_agg(id) as ids from ({rule}) found(id) having count(*) > 0"
    for name, rule in _RULES.items()
)


async def now(model: Model) -> datetime:
    """The database's clock, before a round."""
    moment: datetime = await model.pool.fetchval("select clock_timestamp()")
    return moment


async def check_round(model: Model, since: datetime, shard: int) -> None:
    """Nothing that the round gave since then breaks a lane's rule or a budget."""
    async with model.pool.acquire() as connection:
        settings = await read_dispatch_settings(connection)
        platforms = await read_platform_limits(connection, settings)
        broken = await connection.fetch(
            _CHECK,
            since,
            settings.platform_concurrency_scope is PlatformScope.GLOBAL,
            list(platforms),
            [limits.max_concurrent for limits in platforms.values()],
            settings.client_queue_depth,
            list(settings.paused_lanes),
            settings.coordinator_shards,
            shard,
        )
    assert not broken, f"the round gave {[(row['rule'], row['ids']) for row in broken]}"


async def check_start(model: Model, client_id: UUID) -> None:
    """What runs on a client after a start is within its limit."""
    async with model.pool.acquire() as connection:
        settings = await read_dispatch_settings(connection)
        row: Any = await connection.fetchrow(
            "select coalesce(max_concurrent, $2) as most, (select count(*) from desktop_tasks"
            " where target_client_id = $1 and status = 'in_progress' and result_received_at is null)"
            " + (select count(*) from monitoring_collect_tasks where leased_to_executor = $1 and status = 'leased')"
            " as runs from desktop_clients where id = $1",
            client_id,
            settings.client_concurrency,
        )
    most = min(row["most"], settings.fuses.client_concurrency)
    assert row["runs"] <= most, f"{row['runs']} run on {client_id}, whose limit is {most}"
