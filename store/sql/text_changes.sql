-- name: lock_tasks
-- The question's tasks that are still somebody's work: of its brand's today or later, or of an open batch.
select t.id, t.collect_request_id
from monitoring_collect_tasks t
join questions q on q.id = t.question_id
left join scheduled_batches b on b.id = t.batch_id
where t.tenant_id = $1 and t.question_id = $2 and t.brand_id = q.brand_id
  and (b.status in ('planned', 'running', 'paused') or t.business_date >= (now() at time zone coalesce(
      (select p.time_zone from monitoring_plans p
       where p.tenant_id = $1 and p.brand_id = q.brand_id and p.active and p.collector_type = 'desktop'
       order by p.id limit 1), 'UTC'))::date)
order by t.id
for no key update of t

-- name: lock_queued
-- Then what of them waits on a desktop, in a statement of its own: it sees what was dispatched before the locks were ours.
select d.id from desktop_tasks d
join monitoring_collect_tasks t on t.active_task_id = d.id
where t.id = any($1::bigint[]) and d.status = 'queued'
order by d.id
for no key update of d

-- name: renew_waiting
-- Not begun: simply asked in the new text, with its age.
update monitoring_collect_tasks t
set question_version_id = q.current_version_id, updated_at = now()
from questions q
where t.id = any($1::bigint[]) and q.id = t.question_id and t.status = 'pending' and t.active_task_id is null
  and t.question_version_id <> q.current_version_id

-- name: reopen_finished
-- Answered, failed or skipped in another text, in a batch that goes on: asked again from the beginning. An open request
-- keeps its task where it is, any other task waits in the normal lane.
with finished as (
    select t.id, t.status as old_status, q.current_version_id, r.id as open_request_id
    from monitoring_collect_tasks t
    join questions q on q.id = t.question_id
    join scheduled_batches b on b.id = t.batch_id and b.status in ('planned', 'running', 'paused')
    left join monitoring_collect_requests r on r.id = t.collect_request_id
        and r.status in ('accepted', 'dispatching', 'running')
    where t.id = any($1::bigint[]) and t.status in ('completed', 'failed', 'skipped', 'expired')
      and t.question_version_id <> q.current_version_id
)
update monitoring_collect_tasks t
set status = 'pending', question_version_id = f.current_version_id, dispatch_attempts = 0, dispatch_after = null,
    collect_request_id = f.open_request_id,
    dispatch_lane = case when f.open_request_id is null then 'normal' else t.dispatch_lane end,
    dispatch_priority = case when f.open_request_id is null then 100 else t.dispatch_priority end,
    origin_lane = case when f.open_request_id is not null then t.origin_lane end,
    origin_priority = case when f.open_request_id is not null then t.origin_priority end,
    target_client_id = case when f.open_request_id is not null then t.target_client_id end, execution_owner = $2,
    last_error = null, skip_reason = null, finished_at = null, last_dispatched_at = null,
    enqueued_at = clock_timestamp(), updated_at = now()
from finished f
where t.id = f.id
returning t.id, t.batch_id, f.old_status
