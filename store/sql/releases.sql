-- name: lock_business_tasks
-- Business tasks first, by id: the lock order of every transaction.
select t.id from monitoring_collect_tasks t
where t.id in (select d.monitor_task_id from desktop_tasks d where d.id = any($1::uuid[]))
order by t.id
for no key update

-- name: lock_execution_tasks
-- Then the execution rows, by id. Finished ones too: a call about one is answered, not ignored.
select d.id, d.tenant_id, d.monitor_task_id, d.target_client_id, d.lane, d.status, d.attempt_id, d.lease_token_hash,
    d.result_received_at, d.interrupt_generation, d.interrupt_request_id, d.interrupt_reason,
    d.lease_expires_at, coalesce(d.lease_expires_at <= now(), true) as expired,
    coalesce(d.control_flags ->> 'interrupt_requested' = 'true', false) as interrupt_requested
from desktop_tasks d
where d.id = any($1::uuid[])
order by d.id
for no key update

-- name: abort_executions
-- Out of a lease without counting an attempt: the business task keeps lane, priority and age and may be dispatched
-- again, in its question's current text (§1.1). An attempt that a revocation ended before keeps its outcome.
with aborted as (
    update desktop_tasks d
    set status = 'aborted', finished_at = now(), lease_expires_at = null, last_error = coalesce($3, d.last_error),
        updated_at = now()
    where d.id = any($1::uuid[]) and d.kind = 'monitor' and d.status in ('queued', 'in_progress', 'unknown')
    returning d.id, d.tenant_id, d.monitor_task_id, d.attempt_id, d.target_client_id, d.lane, d.interrupt_generation,
        d.interrupt_request_id
), closed as (
    update desktop_task_attempts x set ended_at = now(), outcome = $2, error = coalesce($3, x.error)
    from aborted a where x.id = a.attempt_id and x.ended_at is null
), freed as (
    update monitoring_collect_tasks t
    set active_task_id = null, preemptions = t.preemptions + ($2 = 'preempted')::int, updated_at = now(),
        question_version_id = coalesce((select q.current_version_id from questions q where q.id = t.question_id),
            t.question_version_id)
    from aborted a where t.id = a.monitor_task_id and t.active_task_id = a.id
    returning t.id, t.collect_request_id
)
select a.id, a.tenant_id, a.target_client_id, a.lane, a.interrupt_generation, a.interrupt_request_id,
    f.collect_request_id, f.id as freed_task_id
from aborted a left join freed f on f.id = a.monitor_task_id
order by a.id

-- name: lock_requests
-- All requests that the following steps touch, by id, in one go.
select id from monitoring_collect_requests where id = any($1::uuid[]) order by id for no key update
