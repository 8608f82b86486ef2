-- name: lock_rounds_shared
-- Held to the end of a round: meanwhile nobody pauses anything, and neither the owners of tenants nor the scope of platforms
-- change. A statement of its own, so that what is read next is what the former holder of the lock committed.
select pg_advisory_xact_lock_shared(hashtextextended('giveway:rounds', 0))

-- name: lock_platforms
-- Several coordinators that count platforms over all tenants decide one after the other.
select pg_advisory_xact_lock(hashtextextended('giveway:global-platforms', 0))

-- name: read_fleet
-- Who is there, with what decisions need of each tenant: its counter (the round is void for a tenant whose counter moved),
-- weight, budget and pause, and what the last minute's rounds dispatched for it and for everybody ($1 of $2 owners).
with used as materialized (
    select tenant_id, sum(scheduled)::int as scheduled, sum(high)::int as high
    from dispatch_ledger where at > now() - interval '60 seconds'
    group by tenant_id
), everybody as materialized (
    select coalesce(sum(scheduled), 0)::int as scheduled, coalesce(sum(high), 0)::int as high from used
)
select c.id, c.tenant_id, c.workspace_id, c.paused, c.max_concurrent, c.max_queue_depth, c.platform_sessions,
    n.interrupt_generation, n.fair_weight, n.paused as tenant_paused, n.dispatch_per_minute,
    coalesce(u.scheduled, 0) as scheduled, coalesce(u.high, 0) as high,
    e.scheduled as cluster_scheduled, e.high as cluster_high, coalesce(a.abort_rate, 0)::float8 as abort_rate
from online_clients c
join tenants n on n.id = c.tenant_id
cross join everybody e
left join used u on u.tenant_id = c.tenant_id
left join lateral (
    select avg((x.outcome in ('returned', 'lease_expired', 'revoked'))::int) as abort_rate
    from desktop_task_attempts x where x.client_id = c.id and x.ended_at > now() - interval '1 minute'
) a on true
where c.tenant_id % $2::int = $1::int

-- name: read_leaving
-- When each of the dispatches in a full window leaves it: seconds from now, the first first, and how many at once. Asked
-- only by a round that was refused. Without tenants ($1): everybody's.
select (60 - extract(epoch from now() - at))::float8 as leaves_in, tenant_id, scheduled + high as dispatched, scheduled
from dispatch_ledger
where at > now() - interval '60 seconds' and ($1::bigint[] is null or tenant_id = any($1))
order by at

-- name: read_live
-- What holds a slot or a platform now: as many rows as the fleet has room. A received result holds nothing any more. It
-- gives way only while the order to stop stands. Legacy leases run, legacy offers are queued; both by indexes that hold
-- nothing else.
select tenant_id, target_client_id, ai_platform_id, status, lane,
    case when control_flags ->> 'interrupt_requested' = 'true' then interrupt_request_id end as interrupted_for, false as legacy
from desktop_tasks
where kind = 'monitor' and status in ('queued', 'in_progress', 'unknown') and result_received_at is null
  and tenant_id % $2::int = $1::int
union all
select tenant_id, leased_to_executor, ai_platform_id, 'in_progress', dispatch_lane, null, true
from monitoring_collect_tasks
where leased_to_executor is not null and status = 'leased' and tenant_id % $2::int = $1::int
union all
select tenant_id, target_client_id, ai_platform_id, 'queued', dispatch_lane, null, true
from monitoring_collect_tasks
where legacy_offer_expires_at is not null and legacy_offer_expires_at > now() and status = 'pending'
  and target_client_id is not null and tenant_id % $2::int = $1::int

-- name: read_bound
-- High work that waits, and whatever else is bound to one client: as many as open requests hold, and of each kind only as
-- many as a platform could take ($4); of each request, for a slot may be promised to one of them alone. High work of an open request has to be bound before it goes. $5: tasks that could not
-- be written lately.
select id, tenant_id, workspace_id, ai_platform_id, dispatch_lane, dispatch_priority, enqueued_at, target_client_id,
    collect_request_id, awaits_client, legacy
from (
    select t.*, t.execution_owner = 'legacy' as legacy, false as awaits_client,
        row_number() over (partition by t.target_client_id, t.ai_platform_id, t.dispatch_lane, t.collect_request_id
            order by t.dispatch_priority desc, t.enqueued_at, t.id) as position
    from monitoring_collect_tasks t
    where t.target_client_id = any($1::uuid[]) and t.status = 'pending' and t.active_task_id is null
      and t.collector_type = 'desktop' and (t.dispatch_after is null or t.dispatch_after <= now())
      and (t.legacy_offer_expires_at is null or t.legacy_offer_expires_at <= now()) and t.id <> all($5::bigint[])
    union all
    select t.*, t.execution_owner = 'legacy',
        r.status is not null and r.status in ('accepted', 'dispatching', 'running'),
        row_number() over (partition by t.tenant_id, t.workspace_id, t.ai_platform_id,
                r.status is not null and r.status in ('accepted', 'dispatching', 'running')
            order by t.dispatch_priority desc, t.enqueued_at, t.id)
    from monitoring_collect_tasks t
    left join monitoring_collect_requests r on r.id = t.collect_request_id
    where t.status = 'pending' and t.active_task_id is null and t.target_client_id is null and t.dispatch_lane = 'high'
      and t.workspace_id = any($2::bigint[]) and t.collector_type = 'desktop'
      and (t.dispatch_after is null or t.dispatch_after <= now())
      and (t.legacy_offer_expires_at is null or t.legacy_offer_expires_at <= now()) and t.id <> all($5::bigint[])
) t
where t.position <= $4 and t.ai_platform_id = any($3::text[])

-- name: find_waiting
-- In which lanes each tenant has anything that waits: an index probe each, whatever waits. Lateral, ordered and limited:
-- otherwise the planner would join or read the whole backlog, in the hope of a row soon.
select n.tenant_id, l.lane
from unnest($1::bigint[]) as n(tenant_id)
cross join unnest($2::text[]) as l(lane)
cross join lateral (
    select from monitoring_collect_tasks t
    where t.tenant_id = n.tenant_id and t.dispatch_lane = l.lane and t.dispatch_lane in ('normal_boosted', 'normal', 'retry')
      and t.status = 'pending' and t.active_task_id is null and t.collector_type = 'desktop'
    order by t.enqueued_at, t.id
    limit 1
) t

-- name: read_heads
-- The head of one lane of each workspace on each platform, of scheduled tasks that any of its clients may take: an index
-- probe each, and as many rows as the platform has room ($4, at most $6), so the cost follows free capacity and never the
-- backlog.
select t.id, t.tenant_id, t.workspace_id, t.ai_platform_id, t.dispatch_lane, t.dispatch_priority, t.enqueued_at,
    null::uuid as target_client_id, t.collect_request_id, false as awaits_client, t.execution_owner = 'legacy' as legacy
from unnest($1::bigint[], $2::bigint[], $3::text[], $4::int[], $5::text[])
    as n(tenant_id, workspace_id, platform, room, lane)
cross join lateral (
    select * from monitoring_collect_tasks t
    where t.tenant_id = n.tenant_id and t.workspace_id = n.workspace_id and t.ai_platform_id = n.platform
      and t.dispatch_lane = n.lane and t.target_client_id is null
      and t.status = 'pending' and t.active_task_id is null and t.collector_type = 'desktop'
      and (t.dispatch_after is null or t.dispatch_after <= now()) and t.id <> all($7::bigint[])
    order by t.dispatch_priority desc, t.enqueued_at, t.id
    limit least(n.room, $6::int)
) t

-- name: count_normal
-- How much normal work waits where it could go ($3: open platforms, $5: lanes that are not paused), up to the low-water mark
-- of each lane: all that the retry rule asks.
select n.tenant_id, coalesce(sum(c.waiting), 0)::int as waiting
from unnest($1::bigint[], $2::bigint[]) as n(tenant_id, workspace_id)
cross join unnest($3::text[]) as p(platform)
cross join unnest($5::text[]) as l(lane)
cross join lateral (
    select count(*) as waiting from (
        select from monitoring_collect_tasks t
        where t.tenant_id = n.tenant_id and t.workspace_id = n.workspace_id and t.ai_platform_id = p.platform
          and t.dispatch_lane = l.lane and t.target_client_id is null
          and t.status = 'pending' and t.active_task_id is null and t.collector_type = 'desktop'
        limit $4
    ) t
) c
group by n.tenant_id

-- name: find_unbound_requests
-- Whose high tasks wait for a desktop that could take them, and is there ($1 of $2 owners). A paused tenant's wait, and those
-- on platforms that are not open.
select distinct u.request_id as id, u.tenant_id
from tasks_to_bind u
join tenants n on n.id = u.tenant_id and not n.paused
join ai_platforms p on p.id = u.ai_platform_id and p.enabled
left join platform_settings s on s.platform_id = p.id
where s.paused is not true and u.tenant_id % $2::int = $1::int
order by 1
