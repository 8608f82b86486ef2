"""What a round may give, and a start may take: judged by the settings in force at that moment (1-dispatch §1.2–1.4)."""

from datetime import datetime
from typing import Any
from uuid import UUID

from domain.budgets import floor_of
from domain.dispatch_settings import DispatchSettings, PlatformScope
from store.database import Connection
from store.settings import read_dispatch_settings, read_platform_limits
from tests.model.orders import FLOOR_HELD
from tests.model.state import LIVE, OPEN, Model

# Everything that the round gave ($1: since), on either path, and everything that holds something.
_GIVEN = f"""
with held as (
    select d.id::text, d.tenant_id, d.target_client_id as client_id, d.ai_platform_id as platform, d.lane, d.status,
        case when d.control_flags ->> 'interrupt_requested' = 'true' and r.{OPEN} then r.id end as gives_way_to,
        t.collect_request_id as request_id, d.created_at as given_at, d.status = 'queued' as queued,
        d.status = 'in_progress' as runs
    from desktop_tasks d join monitoring_collect_tasks t on t.id = d.monitor_task_id
    left join monitoring_collect_requests r on r.id = d.interrupt_request_id
    where d.{LIVE} and d.result_received_at is null
    union all
    select id::text, tenant_id, coalesce(leased_to_executor, target_client_id), ai_platform_id, dispatch_lane, status,
        null, collect_request_id, legacy_offered_at, status = 'pending', status = 'leased'
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
    # A victim's slot is its preemptor's while that one is open, and nobody else's.
    "a slot that is in use or promised to another": """
        select g.id from given g join desktop_clients c on c.id = g.client_id
        where (select count(*) from held h where h.client_id = g.client_id and h.runs
            and (g.lane <> 'high' or g.request_id is null or h.gives_way_to is distinct from g.request_id))
          >= least(coalesce(c.max_concurrent, $9::int), $10::int)""",
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
# Over the whole window: what the last minute's rounds gave counts. What could still go after the round could have gone
# before its high work; it is not asked near the edge of the window, where our clock and the round's differ.
_FLOOR = (
    _GIVEN.rstrip()
    + """
, used as (
    select coalesce(sum(scheduled), 0) as scheduled, coalesce(sum(scheduled + high), 0) as given,
        count(*) filter (where at < now() - interval '59 seconds') as at_the_edge
    from dispatch_ledger where at > now() - interval '61 seconds'
), left_waiting as (
    select t.id from used u, monitoring_collect_tasks t
    join tenants n on n.id = t.tenant_id
    join online_clients c on c.tenant_id = t.tenant_id and c.workspace_id = t.workspace_id
    left join platform_settings p on p.platform_id = t.ai_platform_id
    where u.scheduled < $4 and u.at_the_edge = 0 and t.status = 'pending' and t.active_task_id is null
      and t.target_client_id is null and t.dispatch_lane in ('normal', 'normal_boosted')
      and t.dispatch_lane <> all($6::text[]) and t.legacy_offer_expires_at is null and t.dispatch_after is null
      and not n.paused and not c.paused and not coalesce(p.paused, false)
      and coalesce(c.platform_sessions ->> t.ai_platform_id, 'healthy') = 'healthy'
      and not exists (select from held h where h.client_id = c.id and h.lane = 'high')
      and not exists (select from monitoring_collect_tasks b
        where b.target_client_id = c.id and b.status = 'pending' and b.dispatch_lane = 'high')
      and (select count(*) from held h where h.client_id = c.id and h.runs)
        < least(coalesce(c.max_concurrent, $7::int), $8::int)
      and (select count(*) from held h where h.client_id = c.id and h.queued)
        < least(coalesce(c.max_queue_depth, $9::int), 40)
      and (select count(*) from held h where h.platform = t.ai_platform_id and ($2 or h.tenant_id = t.tenant_id))
        < least(coalesce(p.max_concurrent, $10::int), $10::int)
      and (select coalesce(sum(l.scheduled + l.high), 0) from dispatch_ledger l
        where l.tenant_id = t.tenant_id and l.at > now() - interval '61 seconds')
        < least(coalesce(n.dispatch_per_minute, $5::int), $5::int)
)
select exists (select from given where lane = 'high') as gave_high,
    exists (select from given where lane <> 'high')::int as gave_scheduled,
    array(select id from left_waiting) as left_waiting
from used where given >= $3"""
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
            settings.client_concurrency,
            settings.fuses.client_concurrency,
        )
        floor = await _read_floor(connection, since, settings)
    assert not broken, f"the round gave {[(row['rule'], row['ids']) for row in broken]}"
    if floor is not None and floor["gave_high"]:
        assert not floor["left_waiting"], f"high work took the floor of {floor['left_waiting']}"
        model.happened[FLOOR_HELD] += floor["gave_scheduled"]


async def _read_floor(connection: Connection, since: datetime, settings: DispatchSettings) -> Any:
    """Of a round that filled the minute: whether it gave high work, and what it left waiting below the floor.

    None where there is no floor to keep: with several coordinators their permits have it.
    """
    if settings.coordinator_shards > 1:
        return None
    fuses = settings.fuses
    per_minute = min(settings.cluster_per_minute, fuses.cluster_per_minute)
    return await connection.fetchrow(
        _FLOOR,
        since,
        settings.platform_concurrency_scope is PlatformScope.GLOBAL,
        fuses.cluster_per_minute,
        floor_of(per_minute, settings.normal_floor),
        min(settings.tenant_per_minute, fuses.tenant_per_minute),
        list(settings.paused_lanes),
        settings.client_concurrency,
        fuses.client_concurrency,
        settings.client_queue_depth,
        min(settings.platform_concurrency, fuses.platform_concurrency),
    )


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
