-- name: lock_tenant
-- The row too, before any task: withdrawing an interrupt raises its counter.
select id from tenants where id = $1 for no key update

-- name: lock_business_tasks
-- Of the request, and legacy ones that it asked to stop.
select id from monitoring_collect_tasks
where collect_request_id = $1 or legacy_interrupt_request_id = $1
order by id
for no key update

-- name: lock_execution_tasks
-- Of the request, and the victims that were interrupted for it.
select id from desktop_tasks
where kind = 'monitor' and status in ('queued', 'in_progress', 'unknown')
  and (interrupt_request_id = $1
    or monitor_task_id = any(array(select id from monitoring_collect_tasks where collect_request_id = $1)))
order by id
for no key update

-- name: lock_requests
-- By id: this one, and the tenant's open ones, which may inherit its victims. A handful: a tenant has two at a time.
select id from monitoring_collect_requests
where id = any($1::uuid || array(select id from monitoring_collect_requests
    where tenant_id = $2 and status in ('accepted', 'dispatching', 'running')))
order by id
for no key update

-- name: is_open
select status in ('accepted', 'dispatching', 'running') from monitoring_collect_requests where id = $1 and tenant_id = $2

-- name: read_counters
select status, requested_task_count, dispatched_task_count, completed_task_count, failed_task_count, returned_task_count,
    target_client_id, hint
from monitoring_collect_requests where id = $1

-- name: find_accepted
select * from monitoring_collect_requests where id = $1 and tenant_id = $2

-- name: set_hint
-- Only while it is true: the signal that says otherwise may still be on its way to the workflow.
with hinted as (
    update monitoring_collect_requests r set hint = $2
    where r.id = $1 and r.hint is distinct from $2 and case
        when $2 is null then true
        when $2 = 'waiting_for_safe_point' then exists (select from desktop_tasks d where d.interrupt_request_id = r.id
            and d.status = 'in_progress' and (d.control_flags ->> 'interrupt_requested')::boolean)
        when $2 in ('waiting_for_slot', 'waiting_for_client', 'waiting_for_resume') then r.dispatched_task_count = 0
        else true end
    returning r.id
)
select count(*)::int from hinted

-- name: abort_queued
-- On one client, or on all (null). Back to pending, keeping lane and age.
with aborted as (
    update desktop_tasks d
    set status = 'aborted', interrupt_reason = 'request_released', lease_expires_at = null, finished_at = now(),
        updated_at = now()
    from monitoring_collect_tasks t
    where t.collect_request_id = $1 and d.id = t.active_task_id and d.status = 'queued'
      and ($2::uuid is null or d.target_client_id = $2)
    returning d.id, d.attempt_id, d.monitor_task_id, d.target_client_id, d.lane, d.interrupt_reason, d.interrupt_generation
), freed as (
    update monitoring_collect_tasks t set active_task_id = null, updated_at = now()
    from aborted a where t.id = a.monitor_task_id
), closed as (
    update desktop_task_attempts x set ended_at = now(), outcome = 'cancelled'
    from aborted a where x.id = a.attempt_id and x.ended_at is null
)
select id, target_client_id, lane, interrupt_reason, interrupt_generation from aborted

-- name: unbind_waiting
-- Any online client may take them now; the lane stays high. The request forgets the client if it was its target. What was
-- only on offer was not dispatched.
with unbound as (
    update monitoring_collect_tasks set target_client_id = null, legacy_offer_expires_at = null, updated_at = now(),
        last_dispatched_at = case when legacy_offer_expires_at is null then last_dispatched_at end
    where collect_request_id = $1 and target_client_id = $2 and status = 'pending' and active_task_id is null
    returning id
), forgotten as (
    update monitoring_collect_requests set target_client_id = null, hint = 'waiting_for_client'
    where id = $1 and target_client_id = $2
)
select count(*)::int from unbound

-- name: find_asked
-- Whoever runs although asked to stop, on the client whose time is up (null: on any), up to the generation.
select id, ai_platform_id from desktop_tasks
where interrupt_request_id = $1 and status = 'in_progress' and result_received_at is null
  and (control_flags ->> 'interrupt_requested')::boolean and ($2::bigint is null or interrupt_generation <= $2)
  and ($3::uuid is null or target_client_id = $3)
order by id

-- name: revoke_victims
-- The lease is over and the slot free; unknown until the desktop says what became of it (reconcile, hello). Operators see
-- that somebody did not give way.
with revoked as (
    update desktop_tasks
    set status = 'unknown', lease_token_hash = null, lease_expires_at = now(), updated_at = now(),
        control_flags = control_flags || '{"interrupt_requested": false, "force_released": true}'
    where id = any($2::uuid[]) and interrupt_request_id = $1 and status = 'in_progress' and result_received_at is null
    returning id, tenant_id, target_client_id, attempt_id, ai_platform_id, phase, interrupt_generation
), closed as (
    update desktop_task_attempts x set ended_at = now(), outcome = 'revoked'
    from revoked r where x.id = r.attempt_id and x.ended_at is null
), audited as (
    insert into audit_events (tenant_id, actor, action, subject, detail)
    select tenant_id, 'collect-now/' || $1::uuid, 'force_released', id::text, jsonb_build_object(
        'client_id', target_client_id, 'platform', ai_platform_id, 'phase', phase, 'generation', interrupt_generation)
    from revoked
)
select id, target_client_id from revoked

-- name: count_timed_out
update monitoring_collect_requests set interrupt_timed_out_count = interrupt_timed_out_count + $2 where id = $1

-- name: other_client_online
select exists (
    select from online_clients c join monitoring_collect_requests r on r.id = $1
    where c.tenant_id = r.tenant_id and c.workspace_id = r.workspace_id and c.id <> all($2::uuid[]) and not c.paused)

-- name: was_dispatched
select dispatched_task_count > 0 from monitoring_collect_requests where id = $1

-- name: bound_clients
-- Whose batches may have waited for this request's work.
select distinct target_client_id from monitoring_collect_tasks
where collect_request_id = $1 and target_client_id is not null
union
select target_client_id from monitoring_collect_requests where id = $1 and target_client_id is not null

-- name: return_to_origin
-- What waits goes back to the lane it came from, with its age, and is no request's any more; the request counts it as
-- returned, so that what it asked for stays known. $2: so does what runs: the request is over, and a task that comes back
-- from its desktop must not come back high.
with returned as (
    update monitoring_collect_tasks
    set dispatch_lane = coalesce(origin_lane, 'normal'), dispatch_priority = coalesce(origin_priority, 100),
        origin_lane = null, origin_priority = null, target_client_id = null, collect_request_id = null,
        legacy_offer_expires_at = null, updated_at = now(),
        last_dispatched_at = case when legacy_offer_expires_at is null then last_dispatched_at end
    where collect_request_id = $1 and ((status = 'pending' and active_task_id is null)
        or ($2::boolean and status in ('pending', 'leased', 'received')))
    returning id
), counted as (
    update monitoring_collect_requests
    set returned_task_count = returned_task_count + (select count(*)::int from returned)
    where id = $1
)
select id from returned

-- name: mark_cancelled
with marked as (
    update monitoring_collect_requests set status_reason = 'cancelled', hint = null
    where id = $1 and status_reason is distinct from 'cancelled'
    returning id
)
select count(*)::int from marked

-- name: end_request
update monitoring_collect_requests
set status = case when completed_task_count > 0 then 'partial' when status_reason = 'cancelled' then 'failed' else $2 end,
    status_reason = coalesce(status_reason, $3), finished_at = now(), hint = null
where id = $1 and status in ('accepted', 'dispatching', 'running')
