-- name: settle_flags
-- A victim settles once: the flag turns here and only here. Whose interrupt it was stays on the row for the totals.
update desktop_tasks d
set control_flags = d.control_flags || '{"interrupt_requested": false}', updated_at = now()
where d.id = any($1::uuid[]) and d.interrupt_request_id is not null
  and d.control_flags ->> 'interrupt_requested' = 'true'
returning d.interrupt_request_id, d.target_client_id, d.interrupt_generation

-- name: lock_concerned_requests
-- A request may hold some of the tasks and be the preemptor of others: all of them by id in one go, before any counts. One
-- array, because an `or` with a subquery would read every request ever made.
select id from monitoring_collect_requests
where id = any($1::uuid[] || array(select interrupt_request_id from desktop_tasks
    where id = any($2::uuid[]) and interrupt_request_id is not null))
order by id
for no key update

-- name: lock_requests
-- By id, before the counters move: the lock order of every transaction.
select id from monitoring_collect_requests where id = any($1::uuid[]) order by id for no key update

-- name: count_settled
-- Terminal requests count too: their numbers are shown after the end.
update monitoring_collect_requests r
set interrupt_settled_count = r.interrupt_settled_count + s.settled
from (select request_id, count(*)::int as settled from unnest($1::uuid[]) as u(request_id) group by request_id) s
where r.id = s.request_id

-- name: count_withdrawn
-- Orders of theirs that were taken back, or are another request's now.
update monitoring_collect_requests r
set interrupt_withdrawn_count = r.interrupt_withdrawn_count + w.withdrawn
from (select request_id, count(*)::int as withdrawn from unnest($1::uuid[]) as u(request_id) group by request_id) w
where r.id = w.request_id

-- name: interrupt_totals
-- Totals of each (request, client, generation), counted after the request's lock, so the last one says 0 outstanding.
select r.tenant_id, u.request_id as interrupt_request_id, u.client_id as target_client_id,
    u.generation as interrupt_generation,
    count(d.id) filter (where d.control_flags ->> 'interrupt_requested' = 'false')::int as settled,
    count(d.id) filter (where d.control_flags ->> 'interrupt_requested' = 'true')::int as outstanding
from (select distinct * from unnest($1::uuid[], $2::uuid[], $3::bigint[]) as u(request_id, client_id, generation)) u
join monitoring_collect_requests r on r.id = u.request_id
left join desktop_tasks d on d.interrupt_request_id = u.request_id and d.target_client_id = u.client_id
    and d.interrupt_generation = u.generation and d.interrupted_at is not null
group by 1, 2, 3, 4
order by 2, 3, 4

-- name: finished_yields
-- Yields whose desktop's high work is over: nothing high is on it and no high task is bound to it. Locked in key order;
-- a yield that another transaction resumes meanwhile is left out.
select y.batch_id, y.client_id, y.generation from batch_yields y
where y.resumed_at is null and ($1::uuid[] is null or y.client_id = any($1))
  and not exists (
    select from desktop_tasks d
    where d.target_client_id = y.client_id and d.kind = 'monitor' and d.status in ('queued', 'in_progress', 'unknown')
      and (d.lane = 'high' or d.source = 'collect_now'))
  and not exists (
    select from monitoring_collect_tasks t
    where t.target_client_id = y.client_id and t.status = 'pending' and t.dispatch_lane = 'high')
  and not exists (
    select from monitoring_collect_tasks t
    where t.leased_to_executor = y.client_id and t.status = 'leased' and t.dispatch_lane = 'high')
order by y.batch_id, y.client_id, y.generation
limit $2
for no key update of y

-- name: resume_yields
-- Once each.
update batch_yields y
set resumed_at = now()
from unnest($1::bigint[], $2::uuid[], $3::bigint[]) as u(batch_id, client_id, generation), scheduled_batches b
where y.batch_id = u.batch_id and y.client_id = u.client_id and y.generation = u.generation and y.resumed_at is null
  and b.id = y.batch_id
returning b.workflow_id, y.tenant_id, y.client_id, y.generation
