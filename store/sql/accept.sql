-- name: find_by_key
-- The request itself (the activity ran twice), or the one that its Idempotency-Key names, however old. `other_call`: the
-- key came with another call, compared by what the caller sent: neither midnight nor an edited plan makes it another.
-- Requests from before the call was kept are taken at their word.
select r.*, r.id <> $1 and (r.brand_id <> $4 or coalesce(r.call_hash <> $5, false)) as other_call
from monitoring_collect_requests r
where r.tenant_id = $2 and (r.id = $1 or (r.requested_by_user_id = $3 and r.idempotency_key = $6))
order by (r.id = $1) desc
limit 1

-- name: find_same_scope
-- The same click within 5 minutes, of a request that is active or succeeded. One that was taken back is neither, though
-- something of it may still run: whoever clicks again wants it after all.
select r.* from monitoring_collect_requests r
where r.tenant_id = $1 and r.requested_by_user_id = $2 and r.brand_id = $3 and r.scope_hash = $4
  and r.created_at > now() - interval '5 minutes'
  and r.status in ('accepted', 'dispatching', 'running', 'succeeded') and r.status_reason is distinct from 'cancelled'
order by r.created_at desc
limit 1

-- name: count_user_hour
-- And when the oldest of them leaves the window.
select count(*)::int as count,
    coalesce(3600 - extract(epoch from now() - min(created_at)), 0)::float8 as frees_in
from monitoring_collect_requests
where tenant_id = $1 and requested_by_user_id = $2 and created_at > now() - interval '1 hour'

-- name: count_active
-- Counted after the supersede and with the new one: survivors only. One that was taken back only waits for what runs.
select count(*)::int from monitoring_collect_requests
where tenant_id = $1 and status in ('accepted', 'dispatching', 'running') and status_reason is distinct from 'cancelled'

-- name: create_request
insert into monitoring_collect_requests (id, tenant_id, workspace_id, brand_id, keyword_id, requested_by_user_id,
    target_client_id, accepted_client_id, scope_hash, call_hash, idempotency_key, request_scope, preempt, business_date,
    interrupt_generation, accepted_generation, ttl_expires_at, hard_deadline)
values ($1, $2, $3, $4, $5, $6, $7, $7, $8, $16, $9, $10, $11, $12, $13, $13,
    now() + make_interval(secs => $14), now() + make_interval(secs => $15))

-- name: lock_others
-- By id and before any batch, as everywhere: requests that hold tasks of the scope, which lose them or have finished ones
-- asked again, and requests whose interrupts this one may withdraw or take over. `is_holder`: open, with a task of the scope.
select r.id, r.status in ('accepted', 'dispatching', 'running')
    and exists (select from monitoring_collect_tasks t where t.id = any($1::bigint[]) and t.collect_request_id = r.id) as is_holder
from monitoring_collect_requests r
where r.id <> $2 and r.id = any(array(
    select t.collect_request_id from monitoring_collect_tasks t
    where t.id = any($1::bigint[]) and t.collect_request_id is not null
    union
    select d.interrupt_request_id from desktop_tasks d
    where d.kind = 'monitor' and d.status in ('queued', 'in_progress', 'unknown') and d.interrupt_request_id is not null
      and d.monitor_task_id = any($1::bigint[])
    union
    select d.interrupt_request_id from desktop_tasks d
    where d.kind = 'monitor' and d.status in ('queued', 'in_progress', 'unknown') and d.interrupt_request_id is not null
      and d.target_client_id = $3))
order by r.id
for no key update of r

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

-- name: awaited_platforms
-- Whose safe points the request waits for; with nobody asked to stop, those of its tasks: a later binding may ask.
select distinct ai_platform_id from desktop_tasks where interrupt_request_id = $1
union
select distinct t.ai_platform_id from monitoring_collect_tasks t
where t.collect_request_id = $1 and not exists (select from desktop_tasks d where d.interrupt_request_id = $1)

-- name: record_effects
update monitoring_collect_requests
set affected_task_count = $2, promoted_task_count = $3, aborted_queued_count = $4, interrupt_requested_count = $5,
    accepted_interrupt_count = $5
where id = $1

-- name: read_request
select * from monitoring_collect_requests where id = $1
