-- name: find_tenants
-- Whose unfinished work is on the new path. A table read once, in an emergency.
select tenant_id from monitoring_collect_tasks
where execution_owner = 'desktop_tasks' and status = 'pending' and collector_type = 'desktop'
union
select tenant_id from desktop_tasks where kind = 'monitor' and status in ('queued', 'in_progress', 'unknown')
order by 1

-- name: lock_tenants
-- By id, after the lock of all tenants. The generation moves: what a round has read, and what desktops still acknowledge, is old.
update tenants t set interrupt_generation = t.interrupt_generation + 1
from (select id from tenants where id = any($1::bigint[]) order by id for no key update) locked
where t.id = locked.id

-- name: lock_business_tasks
select id from monitoring_collect_tasks
where tenant_id = any($1::bigint[]) and execution_owner = 'desktop_tasks' and status = 'pending' and collector_type = 'desktop'
order by id
for no key update

-- name: lock_execution_tasks
-- After the business tasks, by id; whatever desktop_tasks row is live for one of these tenants, theirs or astray.
select id from desktop_tasks
where tenant_id = any($1::bigint[]) and kind = 'monitor' and status in ('queued', 'in_progress', 'unknown')
order by id
for no key update

-- name: find_requests
-- All that the following steps touch: those that hold the tasks, and those that asked running ones to stop.
select id from monitoring_collect_requests
where id = any(
    array(select collect_request_id from monitoring_collect_tasks where id = any($1::bigint[]) and collect_request_id is not null)
    || array(select interrupt_request_id from desktop_tasks where id = any($2::uuid[]) and interrupt_request_id is not null))
order by id

-- name: abort_executions
-- Dispatch §16.2.3 step 1. `was`: what each was doing. The leases end as revoked, so that an answer that comes all the same is
-- taken.
with live as (
    select id, case when result_received_at is not null then 'received' when status = 'queued' and lease_token_hash is not null
        then 'leased' else status end as was
    from desktop_tasks where id = any($1::uuid[]) and status in ('queued', 'in_progress', 'unknown')
), aborted as (
    update desktop_tasks d
    set status = 'aborted', interrupt_reason = 'phase2_emergency_rollback', last_error = 'phase2_emergency_rollback',
        lease_expires_at = null, finished_at = now(), updated_at = now()
    from live l
    where d.id = l.id
    returning d.id, d.tenant_id, d.target_client_id, d.lane, d.attempt_id, d.interrupt_reason, d.interrupt_generation, l.was
), closed as (
    update desktop_task_attempts a set ended_at = now(), outcome = 'revoked', error = 'phase2_emergency_rollback'
    from aborted d where a.task_id = d.id and a.ended_at is null
)
select a.id, a.tenant_id, a.target_client_id, a.lane, a.interrupt_reason, t.interrupt_generation, a.was
from aborted a join tenants t on t.id = a.tenant_id
order by a.id

-- name: move_tasks
-- Step 2: pending on the legacy path, with lane, priority and age; held back by a paused batch if they were. What an open
-- request bound stays bound.
update monitoring_collect_tasks t
set execution_owner = 'legacy', updated_at = now(),
    active_task_id = case when t.active_task_id = batch_hold(t.batch_id) then t.active_task_id end,
    lease_token_hash = null, leased_to_executor = null, leased_at = null, lease_expires_at = null,
    question_version_id = coalesce((select q.current_version_id from questions q where q.id = t.question_id),
        t.question_version_id)
where t.id = any($1::bigint[]) and t.execution_owner = 'desktop_tasks' and t.status = 'pending'
returning t.id, t.tenant_id, t.collect_request_id

-- name: record
insert into audit_events (actor, action, subject, detail) values ($1, 'legacy_rollback', 'desktop_tasks', $2)
