-- name: find_task
-- Another client's task, or another tenant's, is as good as missing.
select ai_platform_id from desktop_tasks where id = $1 and tenant_id = $2 and target_client_id = $3 and kind = 'monitor'

-- name: lock_platform
-- Starts on one platform of a tenant (0: of all tenants) decide one after the other, before any row lock.
select pg_advisory_xact_lock(hashtextextended('platform:' || $1::bigint || ':' || $2::text, 0))

-- name: lock_client
-- Starts on one client decide one after the other. Its own limits and the platform's, null: the general ones.
select c.max_concurrent, c.max_queue_depth, (select s.max_concurrent from platform_settings s where s.platform_id = $3) as platform_limit
from desktop_clients c
where c.id = $1 and c.tenant_id = $2 and c.revoked_at is null
for no key update of c

-- name: count_running
-- What physically runs, a victim that has not stopped yet included: a slot promised to this task is not free before.
-- An unknown task may still run on the platform, but holds no slot of its client.
-- A legacy lease takes its slot when it is given. `queued`: what waits on the client, this task included.
with used as (
    select d.target_client_id as client_id, d.ai_platform_id, d.status = 'in_progress' as holds_slot
    from desktop_tasks d
    where ($1::bigint = 0 or d.tenant_id = $1 or d.target_client_id = $2) and d.kind = 'monitor'
      and d.status in ('in_progress', 'unknown') and d.result_received_at is null and d.id <> $4
    union all
    select t.leased_to_executor, t.ai_platform_id, true from monitoring_collect_tasks t
    where ($1::bigint = 0 or t.tenant_id = $1 or t.leased_to_executor = $2)
      and t.leased_to_executor is not null and t.status = 'leased'
)
select count(*) filter (where client_id = $2 and holds_slot)::int as on_client,
    count(*) filter (where ai_platform_id = $3)::int as on_platform,
    (select count(*)::int from desktop_tasks q
        where q.target_client_id = $2 and q.kind = 'monitor' and q.status = 'queued' and q.result_received_at is null)
    + (select count(*)::int from monitoring_collect_tasks o
        where o.target_client_id = $2 and o.legacy_offer_expires_at > now() and o.status = 'pending') as queued
from used

-- name: start_task
-- With the attempt, so that both know the same start.
with started as (
    update desktop_tasks
    set status = 'in_progress', started_at = now(), phase = $3, lease_expires_at = now() + make_interval(secs => $2),
        updated_at = now()
    where id = $1 and status = 'queued'
    returning id, attempt_id, monitor_task_id, status, lease_expires_at, interrupt_generation, control_flags
), attempt as (
    update desktop_task_attempts a set started_at = now() from started s where a.id = s.attempt_id
)
select s.status, s.lease_expires_at, s.interrupt_generation,
    coalesce(s.control_flags ->> 'interrupt_requested' = 'true', false) as interrupt_requested, t.collect_request_id
from started s join monitoring_collect_tasks t on t.id = s.monitor_task_id

-- name: extend_lease
-- Whoever shows the current token of a started task still runs it, so an unknown one is in progress again.
update desktop_tasks
set status = case status when 'unknown' then 'in_progress' else status end, phase = coalesce($3, phase),
    lease_expires_at = now() + make_interval(secs => $2), updated_at = now()
where id = $1
returning status, lease_expires_at, interrupt_generation,
    coalesce(control_flags ->> 'interrupt_requested' = 'true', false) as interrupt_requested

-- name: record_stop
-- Where the desktop stopped, on the row for people and on the attempt for the weekly tuning of the timeouts.
with stopped as (
    update desktop_tasks set phase = coalesce($2, phase), safe_point = coalesce($3, safe_point)
    where id = $1
    returning attempt_id
)
update desktop_task_attempts a
set safe_point = $3, safe_point_interval_ms = $4, phase_times = a.phase_times || $5::jsonb, generation = $6
from stopped s where a.id = s.attempt_id and a.ended_at is null

-- name: record_stale_callback
-- A late order changes nothing, but operators see that it came.
insert into audit_events (tenant_id, actor, action, subject, detail)
values ($1, 'desktop:' || $2::uuid, 'stale_callback', $3::uuid::text,
    jsonb_build_object('generation', $4::bigint, 'current_generation', $5::bigint, 'reason', $6::text))

-- name: find_result_attempt
-- Only the very lease that the desktop names. The request counts while it is open. An accept writes its generation on
-- what it adopts: what an earlier request had asked for is none of this one's.
select a.monitor_task_id, a.started_at, a.ended_at, a.outcome, a.result_received_at, t.status as task_status,
    t.ingest_shard_key, case when d.interrupt_generation >= r.accepted_generation then d.source end as source,
    d.status as execution_status, d.attempt_id is not distinct from a.id as is_current,
    r.created_at as request_accepted_at, now() as received_at
from desktop_task_attempts a
join desktop_tasks d on d.id = a.task_id
join monitoring_collect_tasks t on t.id = a.monitor_task_id
left join monitoring_collect_requests r on r.id = t.collect_request_id
    and r.status in ('accepted', 'dispatching', 'running')
where a.id = $1 and a.task_id = $2 and a.tenant_id = $3 and a.client_id = $4 and a.token_hash = $5

-- name: mark_attempt_received
-- Once; sent again it finds nothing to do.
update desktop_task_attempts
set result_received_at = now(), phase_times = phase_times || $2::jsonb,
    safe_point_interval_ms = coalesce($4, safe_point_interval_ms)
where id = $1 and tenant_id = $3 and result_received_at is null
returning id

-- name: mark_task_received
-- From here on the lease neither expires nor is revoked, and the slot is free; ingest closes the row.
update desktop_tasks
set result_received_at = now(), status = 'in_progress', updated_at = now()
where id = $1 and attempt_id = $2 and status in ('in_progress', 'unknown') and result_received_at is null
returning id
