-- name: read_unbound
-- Waiting high tasks without a client, or with one that is lost: a task that ran there comes back only after its lease.
select r.workspace_id, r.preempt, array_agg(t.id order by t.id) as task_ids,
    array_agg(distinct t.ai_platform_id) as platforms
from monitoring_collect_requests r
join monitoring_collect_tasks t on t.collect_request_id = r.id
left join desktop_clients c on c.id = t.target_client_id
where r.id = $1 and r.tenant_id = $2 and r.status in ('accepted', 'dispatching', 'running')
  and t.status = 'pending' and t.active_task_id is null and t.dispatch_lane = 'high'
  and (t.target_client_id is null or c.lost_at is not null or c.revoked_at is not null)
group by r.id

-- name: bind_waiting
-- $5: platforms that the client has no login for; their tasks wait for another client.
with bound as (
    update monitoring_collect_tasks
    set target_client_id = $3, interrupt_generation = $4, updated_at = now()
    where id = any($1::bigint[]) and collect_request_id = $2 and status = 'pending' and active_task_id is null
      and interrupt_generation < $4 and ai_platform_id <> all($5::text[])
    returning id
)
select count(*)::int from bound

-- name: record_binding
update monitoring_collect_requests
set target_client_id = $2, interrupt_generation = $3, interrupt_requested_count = interrupt_requested_count + $4,
    hint = case when hint = 'waiting_for_client' then null else hint end
where id = $1
