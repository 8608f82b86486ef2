-- name: lock_tasks
-- Business tasks first, by id: the lock order of every transaction. No key update: foreign keys to them stay possible.
select t.id from monitoring_collect_tasks t
where t.id in (select a.monitor_task_id from desktop_task_attempts a where a.id = any($1::uuid[]))
order by t.id
for no key update

-- name: lock_executions
-- Then every live execution row of those tasks, also a newer one that a late success replaces.
select d.id from desktop_tasks d
where d.status in ('queued', 'in_progress', 'unknown')
  and d.monitor_task_id in (select a.monitor_task_id from desktop_task_attempts a where a.id = any($1::uuid[]))
order by d.id
for no key update

-- name: lock_requests
-- Then requests: those that the tasks belong to and those that interrupted them, at once, so that the order by id holds.
-- An array, so that they are found by their key.
select r.id from monitoring_collect_requests r
where r.id = any(array(
    select t.collect_request_id from desktop_task_attempts a
    join monitoring_collect_tasks t on t.id = a.monitor_task_id
    where a.id = any($1::uuid[]) and t.collect_request_id is not null
    union all
    select d.interrupt_request_id from desktop_task_attempts a
    join desktop_tasks d on d.monitor_task_id = a.monitor_task_id
    where a.id = any($1::uuid[]) and d.status in ('queued', 'in_progress', 'unknown')
      and d.interrupt_request_id is not null))
order by r.id
for no key update

-- name: read_cases
-- A statement of its own after the locks, so that it sees what committed before they were ours.
select a.id as attempt_id, a.outcome as attempt_outcome, coalesce(a.started_at, a.leased_at) as began_at,
    d.id as execution_id, d.status as execution_status,
    -- What an accept adopted carries its generation: on the legacy path the attempt does. What an earlier request had asked
    -- for is none of this one's.
    case when a.task_id is null then case when a.generation >= r.accepted_generation then 'collect_now' end
        when d.interrupt_generation >= r.accepted_generation then d.source end as source,
    case when d.id is null then true else d.attempt_id is not distinct from a.id end as is_current,
    t.id as task_id, t.status as task_status, t.active_task_id, t.dispatch_attempts, t.max_attempts,
    r.created_at as request_accepted_at,
    coalesce(a.question_version_id, t.question_version_id) = t.question_version_id as asked_current_text
from desktop_task_attempts a
join monitoring_collect_tasks t on t.id = a.monitor_task_id
left join desktop_tasks d on d.id = a.task_id
left join monitoring_collect_requests r on r.id = t.collect_request_id and r.status in ('accepted', 'dispatching', 'running')
where a.id = any($1::uuid[])

-- name: running_attempts
-- The newest lease of each of these live execution rows.
select d.id, d.attempt_id, d.monitor_task_id from desktop_tasks d
where d.id = any($1::uuid[]) and d.status in ('queued', 'in_progress', 'unknown') and d.attempt_id is not null
order by d.id

-- name: end_attempts
-- The outcome is what deduplicates a result. An attempt that was revoked before keeps the time it ended.
update desktop_task_attempts a
set outcome = e.outcome, error = e.error, ended_at = coalesce(a.ended_at, now()),
    result_received_at = coalesce(a.result_received_at, e.received_at),
    phase_times = a.phase_times || e.phase_times
from unnest($1::uuid[], $2::text[], $3::text[], $4::timestamptz[], $5::jsonb[])
    as e(id, outcome, error, received_at, phase_times)
where a.id = e.id

-- name: end_executions
-- No lease outlives its task. The token hash stays, so that a resent result is known as a duplicate.
update desktop_tasks d
set status = e.status, last_error = e.error, finished_at = now(), lease_expires_at = null, updated_at = now(),
    result_received_at = coalesce(d.result_received_at, e.received_at)
from unnest($1::uuid[], $2::text[], $3::text[], $4::timestamptz[]) as e(id, status, error, received_at)
where d.id = e.id and d.status in ('queued', 'in_progress', 'unknown')
returning d.id, d.tenant_id, d.target_client_id, d.interrupt_generation, d.interrupt_request_id

-- name: end_tasks
-- One statement for every effect. enqueued_at stays: a task keeps its age through retries. A task that fails or
-- completes counts in its batch exactly here, at the step out of an unfinished status. One that is asked again is asked
-- in its question's current text (§1.1).
update monitoring_collect_tasks t
set status = case e.effect when 'complete' then 'completed' when 'fail' then 'failed' else 'pending' end,
    active_task_id = null,
    dispatch_attempts = t.dispatch_attempts + (e.effect in ('retry', 'retry_high', 'fail'))::int,
    dispatch_lane = case e.effect when 'retry' then 'retry' when 'retry_high' then 'high' else t.dispatch_lane end,
    dispatch_priority = case
        when e.effect = 'retry' then 50
        when e.effect = 'retry_high' and t.dispatch_lane <> 'high' then 5000
        else t.dispatch_priority end,
    question_version_id = case when e.effect in ('complete', 'fail') then t.question_version_id
        else coalesce((select q.current_version_id from questions q where q.id = t.question_id), t.question_version_id) end,
    last_error = e.error,
    finished_at = case when e.effect in ('complete', 'fail') then now() end,
    -- Whom the coordinator offered it to has had it; what an open request bound stays bound.
    target_client_id = case when t.execution_owner = 'legacy' and e.effect = 'retry' then null else t.target_client_id end,
    lease_token_hash = null, leased_to_executor = null, leased_at = null, lease_expires_at = null,
    legacy_offer_expires_at = null, legacy_interrupt_request_id = null,
    updated_at = now()
from unnest($1::bigint[], $2::text[], $3::text[]) as e(id, effect, error)
where t.id = e.id and t.status in ('pending', 'leased', 'received')
returning t.id, t.batch_id, t.collect_request_id, e.effect

-- name: skip_cancelled
-- What came back to a batch that dispatches nothing: settled there if the batch was cancelled (the cancel skipped what
-- waited then), held if it is paused. An open request's task is that one's. Returns the settled ones.
with returned as (
    select t.id, b.status = 'paused' as paused from monitoring_collect_tasks t
    join scheduled_batches b on b.id = t.batch_id and b.status in ('paused', 'cancelling', 'cancelled')
    where t.id = any($1::bigint[]) and t.status = 'pending' and t.active_task_id is null
      and not exists (select from monitoring_collect_requests r where r.id = t.collect_request_id
          and r.status in ('accepted', 'dispatching', 'running'))
), held as (
    update monitoring_collect_tasks t set active_task_id = batch_hold(t.batch_id), updated_at = now()
    from returned r where t.id = r.id and r.paused
)
update monitoring_collect_tasks t
set status = 'skipped', skip_reason = 'batch_cancelled', finished_at = now(), updated_at = now()
from returned r
where t.id = r.id and not r.paused
returning t.id, t.batch_id

-- name: abort_replaced
-- A late success makes the newer execution row pointless. Its desktop is told.
update desktop_tasks d
set status = 'aborted', interrupt_reason = 'superseded_by_result', finished_at = now(), lease_expires_at = null,
    updated_at = now()
where d.monitor_task_id = any($1::bigint[]) and d.status in ('queued', 'in_progress', 'unknown')
returning d.id, d.tenant_id, d.target_client_id, d.lane, d.interrupt_generation, d.interrupt_request_id

-- name: supersede_attempts
-- Every lease still open on a completed task: on a newer execution row, re-leased on the same one, or legacy.
update desktop_task_attempts a
set outcome = 'superseded', ended_at = now()
from monitoring_collect_tasks t
where a.monitor_task_id = any($1::bigint[]) and a.ended_at is null and t.id = a.monitor_task_id
returning coalesce(a.task_id::text, 'l-' || t.id) as id, a.tenant_id, a.client_id as target_client_id,
    coalesce((select d.lane from desktop_tasks d where d.id = a.task_id), t.dispatch_lane) as lane,
    coalesce((select d.interrupt_generation from desktop_tasks d where d.id = a.task_id), t.interrupt_generation)
        as interrupt_generation

-- name: mark_projections
-- Coalesced: many results of a brand-day are one mark, and one that waits its turn keeps it. A parked one gets a new
-- life, for its data has changed.
insert into projection_rebuild_queue as q (tenant_id, brand_id, business_date)
select distinct t.tenant_id, t.brand_id, t.business_date from monitoring_collect_tasks t
where t.id = any($1::bigint[])
order by 1, 2, 3
on conflict (tenant_id, brand_id, business_date) do update
set version = q.version + 1,
    tries = case when q.not_before = 'infinity' then 0 else q.tries end,
    not_before = case when q.not_before = 'infinity' then now() else q.not_before end
