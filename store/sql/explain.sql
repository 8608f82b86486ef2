-- name: read_task
-- The task with whatever holds it. $2 and $3: the caller's tenant and workspaces; null: an operator's, who sees all.
select t.id, t.tenant_id, t.workspace_id, t.ai_platform_id, t.collector_type, t.business_date, t.status, t.dispatch_lane,
    t.dispatch_priority, t.origin_lane, t.target_client_id, t.collect_request_id, t.batch_id, t.execution_owner, t.enqueued_at,
    extract(epoch from now() - t.enqueued_at)::float8 as waited_seconds, t.dispatch_after, t.dispatch_attempts, t.max_attempts,
    t.preemptions, t.active_task_id, t.last_error, t.skip_reason, t.finished_at,
    coalesce(t.dispatch_after <= now(), true) as due,
    coalesce(t.active_task_id = batch_hold(t.batch_id), false) as batch_paused,
    coalesce(t.legacy_offer_expires_at > now(), false) as offered, t.legacy_offer_expires_at, t.legacy_offered_at,
    t.leased_at, t.lease_expires_at, t.legacy_interrupt_request_id,
    d.id as execution_id, d.status as execution_status, d.created_at as execution_created_at, d.pushed_at, d.started_at,
    d.phase, d.lease_expires_at as execution_lease_expires_at, d.lease_token_hash is not null as leased,
    d.result_received_at, d.interrupt_request_id, d.interrupted_at,
    coalesce(d.control_flags ->> 'interrupt_requested' = 'true', false) as interrupt_requested,
    c.id as client_id, c.name as client_name,
    a.started_at as legacy_started_at, a.result_received_at as legacy_received_at,
    coalesce(r.status in ('accepted', 'dispatching', 'running'), false) as request_open
from monitoring_collect_tasks t
left join desktop_tasks d on d.id = t.active_task_id and d.status in ('queued', 'in_progress', 'unknown')
left join desktop_clients c on c.id = coalesce(d.target_client_id, t.leased_to_executor,
    case when t.legacy_offer_expires_at > now() then t.target_client_id end)
left join desktop_task_attempts a on a.monitor_task_id = t.id and a.task_id is null and a.ended_at is null
left join monitoring_collect_requests r on r.id = t.collect_request_id
where t.id = $1 and ($2::bigint is null or (t.tenant_id = $2 and t.workspace_id = any($3::bigint[])))

-- name: read_attempts
-- The last few, the newest first.
select attempt, client_id, leased_at, started_at, ended_at, outcome, error from desktop_task_attempts
where monitor_task_id = $1 order by leased_at desc, id desc limit $2

-- name: count_before
-- How many go before the task on its platform: all of the lanes above its own, then by priority and age in its own; unbound
-- ones, and those of the same client. Each part is a range of the claim's index, read up to the limit ($9).
select count(*)::int from (
    (select from monitoring_collect_tasks t
     where t.tenant_id = $1 and t.workspace_id = $2 and t.ai_platform_id = $3 and t.dispatch_lane = any($5::text[])
       and t.target_client_id is null and t.status = 'pending' and t.active_task_id is null and t.collector_type = 'desktop'
       and t.id <> $4 and (t.legacy_offer_expires_at is null or t.legacy_offer_expires_at <= now())
     limit $9)
    union all
    (select from monitoring_collect_tasks t
     where t.tenant_id = $1 and t.workspace_id = $2 and t.ai_platform_id = $3 and t.dispatch_lane = $6
       and t.target_client_id is null and t.status = 'pending' and t.active_task_id is null and t.collector_type = 'desktop'
       and t.id <> $4 and (t.legacy_offer_expires_at is null or t.legacy_offer_expires_at <= now())
       and (t.dispatch_priority > $7 or (t.dispatch_priority = $7 and (t.enqueued_at, t.id) < ($8, $4)))
     limit $9)
    union all
    (select from monitoring_collect_tasks t
     where t.target_client_id = $10 and t.ai_platform_id = $3
       and t.status = 'pending' and t.active_task_id is null and t.collector_type = 'desktop'
       and t.id <> $4 and (t.legacy_offer_expires_at is null or t.legacy_offer_expires_at <= now())
       and (t.dispatch_lane = any($5::text[]) or (t.dispatch_lane = $6 and (t.dispatch_priority > $7
           or (t.dispatch_priority = $7 and (t.enqueued_at, t.id) < ($8, $4)))))
     limit $9)
    limit $9
) b

-- name: recent_rate
-- How many started attempts a minute the tenant's desktops ended on the platform over the last five minutes, on both paths:
-- what makes room for the next ones. Work that began within them is counted from its first start: a batch of half a minute is
-- not spread over five. By each desktop's recent ends. Null: none, so nothing is known.
select count(*) * 60 / extract(epoch from least(interval '5 minutes', greatest(now() - min(a.started_at), interval '1 second')))::float8
from desktop_clients c
join desktop_task_attempts a on a.client_id = c.id and a.ended_at > now() - interval '5 minutes' and a.started_at is not null
join monitoring_collect_tasks t on t.id = a.monitor_task_id and t.ai_platform_id = $2
where c.tenant_id = $1
