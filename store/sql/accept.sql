-- name: find_earlier
-- The request this call repeats: itself (the activity ran twice), its idempotency key, or the same scope within
-- 5 minutes that is active or succeeded. `by_key`: the key alone found it; `other_scope`: it asked for something else.
select r.*, ($6::text is not null and r.idempotency_key is not distinct from $6 and r.id <> $1) as by_key,
    (r.brand_id <> $4 or r.scope_hash <> $5) as other_scope
from monitoring_collect_requests r
where r.tenant_id = $2 and (
    r.id = $1
    or (r.requested_by_user_id = $3 and r.idempotency_key = $6)
    or (r.requested_by_user_id = $3 and r.brand_id = $4 and r.scope_hash = $5
        and r.created_at > now() - interval '5 minutes'
        and r.status in ('accepted', 'dispatching', 'running', 'succeeded')))
order by (r.id = $1) desc, (r.idempotency_key is not distinct from $6 and $6::text is not null) desc, r.created_at desc
limit 1

-- name: count_user_hour
-- And when the oldest of them leaves the window.
select count(*)::int as count,
    coalesce(3600 - extract(epoch from now() - min(created_at)), 0)::float8 as frees_in
from monitoring_collect_requests
where tenant_id = $1 and requested_by_user_id = $2 and created_at > now() - interval '1 hour'

-- name: count_active
-- Counted after the supersede and with the new one: survivors only.
select count(*)::int from monitoring_collect_requests
where tenant_id = $1 and status in ('accepted', 'dispatching', 'running')

-- name: create_request
insert into monitoring_collect_requests (id, tenant_id, workspace_id, brand_id, keyword_id, requested_by_user_id,
    target_client_id, accepted_client_id, scope_hash, idempotency_key, request_scope, preempt, business_date,
    interrupt_generation, accepted_generation, ttl_expires_at, hard_deadline)
values ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9, $10, $11, $12, $13, $13,
    now() + make_interval(secs => $14), now() + make_interval(secs => $15))

-- name: lock_older
-- Open requests that hold tasks of the scope, by id and before any batch, as everywhere: they lose tasks, or their
-- finished tasks are asked again.
select r.id from monitoring_collect_requests r
where r.id in (select t.collect_request_id from monitoring_collect_tasks t where t.id = any($1::bigint[]))
  and r.status in ('accepted', 'dispatching', 'running') and r.id <> $2
order by r.id
for no key update

-- name: move_from_older
-- Only unfinished tasks are taken from an older request (§1.5 step 2); finished ones are reset by the promotion.
with moved as (
    update monitoring_collect_tasks t
    set collect_request_id = $2, superseded_by_request_id = $2, updated_at = now()
    from monitoring_collect_requests r
    where t.id = any($1::bigint[]) and t.collect_request_id = r.id and r.id <> $2
      and t.status in ('pending', 'leased', 'received') and r.status in ('accepted', 'dispatching', 'running')
    returning r.id as request_id
)
select request_id, count(*)::int as count from moved group by request_id order by request_id

-- name: end_superseded
-- Counts what moved; a request left with nothing unfinished ends here, partial if it had results.
update monitoring_collect_requests r
set moved_task_count = r.moved_task_count + m.count,
    requested_task_count = r.requested_task_count - m.count,
    status = case when l.unfinished > 0 then r.status when r.completed_task_count > 0 then 'partial' else 'superseded' end,
    status_reason = case when l.unfinished > 0 then r.status_reason else 'superseded' end,
    superseded_by_request_id = case when l.unfinished > 0 then r.superseded_by_request_id else $3 end,
    finished_at = case when l.unfinished > 0 then r.finished_at else now() end
from unnest($1::uuid[], $2::int[]) as m(id, count),
    lateral (select count(*) as unfinished from monitoring_collect_tasks t
             where t.collect_request_id = m.id and t.status in ('pending', 'leased', 'received')) l
where r.id = m.id
returning r.id, r.tenant_id, r.status

-- name: count_taken
-- Finished tasks of requests that go on without them: asked again, they are the new request's. The recount that follows
-- lowers the other counters.
update monitoring_collect_requests r
set moved_task_count = r.moved_task_count + m.count
from unnest($1::uuid[], $2::int[]) as m(id, count)
where r.id = m.id and r.status in ('accepted', 'dispatching', 'running')

-- name: victim_platforms
-- Whose safe points the request waits for.
select distinct ai_platform_id from desktop_tasks where interrupt_request_id = $1

-- name: record_effects
update monitoring_collect_requests
set affected_task_count = $2, promoted_task_count = $3, aborted_queued_count = $4, interrupt_requested_count = $5,
    accepted_interrupt_count = $5
where id = $1

-- name: read_request
select * from monitoring_collect_requests where id = $1
