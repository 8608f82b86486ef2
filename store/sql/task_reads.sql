-- name: tasks_of_batch
-- By the batch's index, a page after the given id.
select t.id, t.question_id, t.ai_platform_id as platform, t.run_mode, t.business_date, t.status, t.dispatch_lane as lane,
    t.execution_owner as path, t.batch_id, t.collect_request_id, t.enqueued_at, t.finished_at, t.dispatch_attempts,
    t.last_error
from monitoring_collect_tasks t
where t.batch_id = $3 and t.tenant_id = $1 and t.workspace_id = any($2::bigint[]) and t.id > $4
  and ($5::text is null or t.status = $5)
order by t.id
limit $6

-- name: tasks_of_request
-- By the request's index: at most 500.
select t.id, t.question_id, t.ai_platform_id as platform, t.run_mode, t.business_date, t.status, t.dispatch_lane as lane,
    t.execution_owner as path, t.batch_id, t.collect_request_id, t.enqueued_at, t.finished_at, t.dispatch_attempts,
    t.last_error
from monitoring_collect_tasks t
where t.collect_request_id = $3 and t.tenant_id = $1 and t.workspace_id = any($2::bigint[]) and t.id > $4
  and ($5::text is null or t.status = $5)
order by t.id
limit $6

-- name: tasks_of_day
-- By the brand-day's index.
select t.id, t.question_id, t.ai_platform_id as platform, t.run_mode, t.business_date, t.status, t.dispatch_lane as lane,
    t.execution_owner as path, t.batch_id, t.collect_request_id, t.enqueued_at, t.finished_at, t.dispatch_attempts,
    t.last_error
from monitoring_collect_tasks t
where t.tenant_id = $1 and t.workspace_id = any($2::bigint[]) and t.brand_id = $3 and t.business_date = $4 and t.id > $5
  and ($6::text is null or t.status = $6)
order by t.id
limit $7
