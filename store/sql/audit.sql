-- name: check_integrity
-- Each count is a contradiction between two tables. A task that used up its leases has failed without a run. One that was
-- asked again after it had succeeded may have a second success: only one of the same asking counts as doubled, and asking
-- again starts its age anew.
with tasks as (
    select t.*, r.status as request_status from monitoring_collect_tasks t
    left join monitoring_collect_requests r on r.id = t.collect_request_id
    where t.tenant_id = $1
), lost as (
    select t.id from tasks t
    where t.status = 'pending' and t.active_task_id is not null and not exists (
        select from desktop_tasks d where d.id = t.active_task_id and d.status in ('queued', 'in_progress', 'unknown'))
      and not exists (select from scheduled_batches b where b.id = t.batch_id and b.status = 'paused'
        and t.active_task_id = batch_hold(b.id))
    union
    select t.id from tasks t
    where t.status in ('leased', 'received') and not exists (
        select from desktop_task_attempts a where a.monitor_task_id = t.id and a.task_id is null and a.ended_at is null)
    union
    select t.id from tasks t
    where t.status = 'completed' and not exists (
        select from question_monitor_runs u where u.tenant_id = t.tenant_id and u.brand_id = t.brand_id
            and u.question_id = t.question_id and u.ai_platform_id = t.ai_platform_id and u.collector_type = t.collector_type
            and u.run_mode = t.run_mode and u.business_date = t.business_date
            -- A later reading of the body, or a person, may find that what was taken for an answer is none.
            and (u.status = 'succeeded' or exists (
                select from desktop_task_attempts s where s.id = u.attempt_id and s.outcome = 'succeeded')))
    union
    select t.id from tasks t
    where t.collect_request_id is not null and t.status = 'pending' and t.active_task_id is null and t.dispatch_lane = 'high'
      and t.request_status not in ('accepted', 'dispatching', 'running')
), doubled as (
    select t.id from tasks t join desktop_task_attempts a on a.monitor_task_id = t.id
    where a.outcome = 'succeeded' and a.ended_at >= t.enqueued_at
      -- One that came after its lease had ended is kept as a fact: what it closed, and counted, is an execution task.
      and (case when a.task_id is null then a.result_received_at is null or a.ended_at >= a.result_received_at
        else exists (select from desktop_tasks d where d.id = a.task_id and d.status = 'succeeded') end)
      and coalesce(a.question_version_id, t.question_version_id) = t.question_version_id
    group by t.id having count(*) > 1
    union all
    select d.monitor_task_id from desktop_tasks d
    where d.tenant_id = $1 and d.kind = 'monitor' and d.status in ('queued', 'in_progress', 'unknown')
    group by d.monitor_task_id having count(*) > 1
    union all
    select a.monitor_task_id from desktop_task_attempts a
    where a.tenant_id = $1 and a.task_id is null and a.ended_at is null
    group by a.monitor_task_id having count(*) > 1
), overhanging as (
    select d.id from desktop_tasks d
    where d.tenant_id = $1 and d.status not in ('queued', 'in_progress', 'unknown') and (d.lease_expires_at is not null
        or exists (select from desktop_task_attempts a where a.task_id = d.id and a.ended_at is null))
    union
    select d.id from desktop_tasks d join tasks t on t.id = d.monitor_task_id
    where d.kind = 'monitor' and d.status in ('queued', 'in_progress', 'unknown')
      and (t.status <> 'pending' or t.active_task_id is distinct from d.id)
    union
    select a.id from desktop_task_attempts a join tasks t on t.id = a.monitor_task_id
    where a.task_id is null and a.ended_at is null and t.status not in ('leased', 'received')
), held as (
    select collect_request_id as id, count(*)::int as requested,
        count(*) filter (where status = 'completed')::int as completed,
        count(*) filter (where status in ('failed', 'skipped', 'expired'))::int as failed
    from tasks where collect_request_id is not null group by 1
), batched as (
    select batch_id as id, count(*)::int as expected, count(*) filter (where status = 'completed')::int as completed,
        count(*) filter (where status = 'failed')::int as failed, count(*) filter (where status = 'skipped')::int as skipped,
        count(*) filter (where status = 'expired')::int as expired
    from tasks where batch_id is not null group by 1
), miscounted as (
    select r.id::text from monitoring_collect_requests r left join held h on h.id = r.id
    where r.tenant_id = $1 and r.status in ('accepted', 'dispatching', 'running')
      and (r.requested_task_count, r.completed_task_count, r.failed_task_count)
        is distinct from (coalesce(h.requested, 0) + r.returned_task_count, coalesce(h.completed, 0), coalesce(h.failed, 0))
    union all
    select r.id::text from monitoring_collect_requests r
    where r.tenant_id = $1 and r.status not in ('accepted', 'dispatching', 'running')
      and r.requested_task_count <> r.completed_task_count + r.failed_task_count + r.returned_task_count
    union all
    select b.id::text from scheduled_batches b left join batched t on t.id = b.id
    where b.tenant_id = $1 and b.status in ('running', 'paused', 'cancelling')
      and (b.expected_count, b.completed_count, b.failed_count, b.skipped_count, b.expired_count)
        is distinct from (coalesce(t.expected, 0), coalesce(t.completed, 0), coalesce(t.failed, 0), coalesce(t.skipped, 0),
            coalesce(t.expired, 0))
    union all
    -- History: whoever asks its tasks again, its own numbers stay, and say what became of each.
    select b.id::text from scheduled_batches b
    where b.tenant_id = $1 and b.status in ('completed', 'cancelled')
      and b.expected_count <> b.completed_count + b.failed_count + b.skipped_count + b.expired_count
)
select (select count(*)::int from lost) as lost, (select count(*)::int from doubled) as duplicated,
    (select count(*)::int from miscounted) as miscounted, (select count(*)::int from overhanging) as overhanging
