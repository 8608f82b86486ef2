-- name: read_unbound
-- What may be bound now: a task that ran on a lost client comes back only after its lease, and one that is paused when it
-- is resumed ($3: open platforms).
select u.workspace_id, u.preempt, r.target_client_id, array_agg(u.id order by u.id) as task_ids,
    array_agg(distinct u.ai_platform_id) as platforms
from tasks_to_bind u join monitoring_collect_requests r on r.id = u.request_id
where u.request_id = $1 and u.tenant_id = $2 and u.ai_platform_id = any($3::text[])
group by u.workspace_id, u.preempt, r.target_client_id

-- name: bind_waiting
-- $5: platforms that the client has no login for; their tasks wait for another client. What was only on offer to the former
-- client was not dispatched.
with bound as (
    update monitoring_collect_tasks
    set target_client_id = $3, interrupt_generation = $4, legacy_offer_expires_at = null, updated_at = now(),
        last_dispatched_at = case when legacy_offer_expires_at is null then last_dispatched_at end
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
