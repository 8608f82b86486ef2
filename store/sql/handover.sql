-- name: find_asked
-- Victims of the request that have not stopped. An unknown one too: its desktop may come back with it.
select d.id, d.target_client_id, d.lane, d.status, d.phase, d.started_at, d.interrupt_generation, d.interrupted_at,
    d.ai_platform_id, t.preemptions
from desktop_tasks d join monitoring_collect_tasks t on t.id = d.monitor_task_id
where d.interrupt_request_id = $1 and d.kind = 'monitor' and d.status in ('in_progress', 'unknown')
  and d.result_received_at is null and (d.control_flags ->> 'interrupt_requested')::boolean
order by d.id

-- name: find_heirs
-- Other open requests whose high tasks wait on these clients, oldest click first. `busy`: slots in use there that no
-- interrupt is freeing for that request.
select r.id as request_id, c.id as client_id, c.max_concurrent, count(t.id)::int as tasks,
    array_agg(distinct t.ai_platform_id) as platforms,
    (select count(*)::int from desktop_tasks b where b.target_client_id = c.id and b.kind = 'monitor'
        and b.status = 'in_progress' and b.result_received_at is null
        and b.interrupt_request_id is distinct from r.id)
    + (select count(*)::int from monitoring_collect_tasks l where l.leased_to_executor = c.id and l.status = 'leased') as busy
from monitoring_collect_requests r
join monitoring_collect_tasks t on t.collect_request_id = r.id
join desktop_clients c on c.id = t.target_client_id
left join desktop_tasks d on d.id = t.active_task_id
where r.tenant_id = $2 and r.id <> $1 and r.status in ('accepted', 'dispatching', 'running') and r.preempt
  and r.status_reason is distinct from 'cancelled' and t.target_client_id = any($3::uuid[])
  and t.status = 'pending' and t.dispatch_lane = 'high' and (d.id is null or d.status = 'queued')
group by r.id, c.id
order by c.id, r.created_at, r.id

-- name: pass_on
-- The order stands as it is, so the desktop notices nothing; only whose slot it frees changes.
update desktop_tasks d
set interrupt_request_id = p.heir_id, updated_at = now()
from unnest($1::uuid[], $2::uuid[]) as p(task_id, heir_id)
where d.id = p.task_id
returning d.tenant_id, d.target_client_id, d.interrupt_request_id, d.interrupt_generation, d.interrupted_at

-- name: count_inherited
update monitoring_collect_requests r
set interrupt_requested_count = r.interrupt_requested_count + h.inherited
from (select heir_id, count(*)::int as inherited from unnest($1::uuid[]) as u(heir_id) group by heir_id) h
where r.id = h.heir_id

-- name: count_withdrawn
update monitoring_collect_requests set interrupt_withdrawn_count = interrupt_withdrawn_count + $2 where id = $1

-- name: withdraw
-- With a newer generation, so that the order before it is stale.
update desktop_tasks d
set interrupt_generation = $2, control_flags = '{}', interrupt_request_id = null, interrupt_reason = 'withdrawn',
    interrupted_at = null, updated_at = now()
where d.id = any($1::uuid[])
returning d.id, d.target_client_id, d.lane, d.interrupt_reason, d.interrupt_generation
