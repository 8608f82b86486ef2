-- name: list_newest
-- By id, which is in order of time: the load is read for the page alone. Of one tenant by its own index. $5, $6: a platform
-- and what its login is said to be (either may be null; unknown: nothing is said); $7: revoked ones too;
-- $8: only those online.
select f.* from fleet_clients f
where ($1::bigint is null or f.tenant_id = $1) and ($2::bigint[] is null or f.workspace_id = any($2))
  and ($3::uuid is null or f.id < $3) and ($4::text is null or f.state = $4)
  and case when $6::text is null then $5::text is null or f.platform_sessions ? $5
    when $5 is null then $6 in (select value from jsonb_each_text(f.platform_sessions))
    else coalesce(f.platform_sessions ->> $5, 'unknown') = $6 end
  and ($7::boolean or f.revoked_at is null) and (not $8::boolean or f.state in ('online', 'paused'))
order by f.id desc
limit $9

-- name: list_by
-- The worst first, of what $9 names: the load of every desktop that passes the filters is read. $3, $10: after this one with
-- this key. Silence is a time, so that the key of a page stays what it was.
with keyed as (
    select f.*, case $9::text when 'abort_rate' then f.abort_rate when 'queue_depth' then f.queued
        else -extract(epoch from coalesce(f.last_heartbeat_at, 'epoch')) end::float8 as sort_key
    from fleet_clients f
    where ($1::bigint is null or f.tenant_id = $1) and ($2::bigint[] is null or f.workspace_id = any($2))
      and ($4::text is null or f.state = $4)
      and case when $6::text is null then $5::text is null or f.platform_sessions ? $5
        when $5 is null then $6 in (select value from jsonb_each_text(f.platform_sessions))
        else coalesce(f.platform_sessions ->> $5, 'unknown') = $6 end
      and ($7::boolean or f.revoked_at is null) and (not $8::boolean or f.state in ('online', 'paused'))
)
select * from keyed
where $10::float8 is null or (sort_key, id) < ($10, $3::uuid)
order by sort_key desc, id desc
limit $11

-- name: read_client
-- One of the tenant (null: of any), in the workspaces that the caller may see (null: all).
select f.* from fleet_clients f
where f.id = $1 and ($2::bigint is null or f.tenant_id = $2) and ($3::bigint[] is null or f.workspace_id = any($3))

-- name: read_tasks
-- What it runs and what waits there, on both paths, as its loop takes it: by lane, priority, age. At most $2.
select d.id as execution_id, d.monitor_task_id, d.status, d.lane, d.priority, d.ai_platform_id as platform, d.source,
    d.phase, d.phase_since, d.enqueued_at, d.started_at, d.lease_expires_at, d.result_received_at,
    d.attempt, coalesce(d.control_flags ->> 'interrupt_requested' = 'true', false) as interrupt_requested,
    d.interrupt_generation, d.lane_weight
from desktop_tasks d
where d.target_client_id = $1 and d.kind = 'monitor' and d.status in ('queued', 'in_progress', 'unknown')
union all
select null, t.id, case when t.status = 'leased' then 'leased' else 'offered' end, t.dispatch_lane, t.dispatch_priority,
    t.ai_platform_id, 'legacy', null, null, t.enqueued_at, t.leased_at,
    coalesce(t.lease_expires_at, t.legacy_offer_expires_at), null, 0, t.legacy_interrupt_request_id is not null, 0, 0
from monitoring_collect_tasks t
where (t.leased_to_executor = $1 and t.leased_to_executor is not null and t.status = 'leased')
   or (t.target_client_id = $1 and t.status = 'pending' and t.legacy_offer_expires_at > now())
order by status, lane_weight desc, priority desc, enqueued_at
limit $2

-- name: read_last_error
-- Of the newest hundred attempts.
select a.error, a.outcome, a.ended_at, a.monitor_task_id from (
    select error, outcome, ended_at, monitor_task_id from desktop_task_attempts
    where client_id = $1 and ended_at is not null
    order by ended_at desc
    limit 100
) a
where a.error is not null
order by a.ended_at desc
limit 1

-- name: count_fleet
-- The whole fleet in numbers, a row a number; of one tenant, or of all (null). What desktops say of themselves is bounded:
-- unknown platforms and healths are `other`, of versions and hubs the 20 with the most. $2, $3: slots of a desktop that has
-- none of its own, and the fuse.
with standing as materialized (
    select c.id, s.state, c.version, c.hub, c.platform_sessions, least(coalesce(c.max_concurrent, $2), $3) as slots
    from desktop_clients c join desktop_client_states s on s.id = c.id
    where c.revoked_at is null and ($1::bigint is null or c.tenant_id = $1)
), present as (
    select * from standing where state in ('online', 'paused')
), busy as (
    select d.status, d.phase, d.result_received_at is null as holds
    from desktop_tasks d join present p on p.id = d.target_client_id
    where d.kind = 'monitor' and d.status in ('queued', 'in_progress', 'unknown')
    union all
    select 'in_progress', null, true from monitoring_collect_tasks t join present p on p.id = t.leased_to_executor
    where t.leased_to_executor is not null and t.status = 'leased'
), versions as (
    select version, count(*) as n, row_number() over (order by count(*) desc, version) as place from present group by version
), hubs as (
    select hub, count(*) as n, row_number() over (order by count(*) desc, hub) as place from present group by hub
), logins as (
    select coalesce(a.id, 'other') as platform, case when e.value in ('healthy', 'login_required', 'human_check', 'blocked')
        then e.value else 'other' end as health
    from present p cross join lateral jsonb_each_text(p.platform_sessions) e left join ai_platforms a on a.id = e.key
)
select 'state' as section, state as key, null as detail, count(*)::bigint as n from standing group by state
union all
select 'state', 'revoked', null, count(*) from desktop_clients
where revoked_at is not null and ($1::bigint is null or tenant_id = $1)
union all
select 'version', case when place <= 20 then coalesce(version, 'unknown') else 'other' end, null, sum(n)::bigint
from versions group by 2
union all
select 'hub', case when place <= 20 then coalesce(hub, 'unknown') else 'other' end, null, sum(n)::bigint from hubs group by 2
union all
select 'login', platform, health, count(*) from logins group by platform, health
union all
select 'phase', coalesce(phase, 'unknown'), null, count(*) from busy where status = 'in_progress' and holds group by phase
union all
select 'slots', 'total', null, coalesce(sum(slots), 0)::bigint from present
union all
select 'slots', 'used', null, count(*) from busy where status in ('in_progress', 'unknown') and holds
union all
select 'tasks', 'queued', null, count(*) from busy where status = 'queued'

-- name: read_abort_rates
-- Over the online desktops that ended anything in the last hour; by the index of each one's attempts.
select coalesce(percentile_cont(0.5) within group (order by r.rate), 0)::float8 as p50,
    coalesce(percentile_cont(0.95) within group (order by r.rate), 0)::float8 as p95,
    coalesce(max(r.rate), 0)::float8 as max
from desktop_clients c
cross join lateral (
    select avg((x.outcome in ('returned', 'lease_expired', 'revoked'))::int)::float8 as rate
    from desktop_task_attempts x where x.client_id = c.id and x.ended_at > now() - interval '1 hour'
) r
where c.online and c.last_heartbeat_at > now() - interval '30 seconds' and c.revoked_at is null and r.rate is not null

-- name: find_client
-- By its id, or by the last group of it, which is random: enough to tell a fleet apart. Two rows: not enough this time.
select id, tenant_id, name from desktop_clients
where case when length($1::text) = 36 then id = $1::text::uuid else right(id::text, 12) = $1::text end
limit 2
