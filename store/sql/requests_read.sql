-- name: read_request
-- The time left by the database's clock, so that a client's own doesn't matter; it runs to the first dispatch only.
select r.id as request_id, r.brand_id, r.keyword_id, r.requested_by_user_id, r.status, r.status_reason, r.hint, r.preempt,
    r.business_date, r.request_scope as scope, r.target_client_id, r.superseded_by_request_id, r.requested_task_count,
    r.dispatched_task_count, r.completed_task_count, r.failed_task_count, r.returned_task_count, r.moved_task_count,
    r.interrupt_generation,
    jsonb_build_object('requested', r.interrupt_requested_count, 'settled', r.interrupt_settled_count,
        'timed_out', r.interrupt_timed_out_count, 'withdrawn', r.interrupt_withdrawn_count) as interrupts,
    r.created_at, r.first_dispatched_at, r.first_result_at, r.finished_at, r.ttl_expires_at, r.hard_deadline,
    case when r.first_dispatched_at is null and r.finished_at is null
        then greatest(0, extract(epoch from r.ttl_expires_at - now()))::float8 end as ttl_left_seconds
from monitoring_collect_requests r
where r.tenant_id = $1 and r.workspace_id = any($2::bigint[]) and r.id = $3

-- name: list_requests
-- By the listing index; the id breaks ties, so that pages neither skip nor repeat.
select r.id as request_id, r.brand_id, r.keyword_id, r.requested_by_user_id, r.status, r.status_reason, r.hint, r.preempt,
    r.business_date, r.request_scope as scope, r.target_client_id, r.superseded_by_request_id, r.requested_task_count,
    r.dispatched_task_count, r.completed_task_count, r.failed_task_count, r.returned_task_count, r.moved_task_count,
    r.interrupt_generation,
    jsonb_build_object('requested', r.interrupt_requested_count, 'settled', r.interrupt_settled_count,
        'timed_out', r.interrupt_timed_out_count, 'withdrawn', r.interrupt_withdrawn_count) as interrupts,
    r.created_at, r.first_dispatched_at, r.first_result_at, r.finished_at, r.ttl_expires_at, r.hard_deadline,
    case when r.first_dispatched_at is null and r.finished_at is null
        then greatest(0, extract(epoch from r.ttl_expires_at - now()))::float8 end as ttl_left_seconds
from monitoring_collect_requests r
where r.tenant_id = $1 and r.workspace_id = any($2::bigint[]) and ($3::bigint is null or r.brand_id = $3)
  and ($4::timestamptz is null or (r.created_at, r.id) < ($4, $5::uuid))
order by r.created_at desc, r.id desc
limit $6

-- name: read_failures
-- Why tasks of the request failed, the most frequent reasons first; a request has at most 500 tasks.
select left(coalesce(t.last_error, t.skip_reason, t.status), 200) as reason, count(*)::int as tasks
from monitoring_collect_tasks t
where t.tenant_id = $1 and t.collect_request_id = $2 and t.status in ('failed', 'skipped', 'expired')
group by 1
order by 2 desc, 1
limit $3

-- name: is_dispatched
-- What wait_for_first_dispatch waits for.
select first_dispatched_at is not null or status not in ('accepted', 'dispatching', 'running')
from monitoring_collect_requests where tenant_id = $1 and id = $2
