-- name: client_known
-- Another tenant's client and a missing one are indistinguishable.
select exists (select from desktop_clients where tenant_id = $1 and id = $2 and revoked_at is null)

-- name: lock_client
-- After the tenant and before any task.
select id from desktop_clients where id = $1 for no key update

-- name: read_clients
-- Online now by the database's clock, with what keeps it busy and last minute's share of aborted attempts. A task that
-- did not stop in time holds no slot, but its desktop is not idle either.
select c.id, c.tenant_id, c.workspace_id, c.max_concurrent, c.max_queue_depth, c.paused, c.platform_sessions,
    l.busy, coalesce(a.abort_rate, 0)::float8 as abort_rate
from desktop_clients c
cross join lateral (
    select count(*)::int as busy from desktop_tasks d
    where d.target_client_id = c.id and d.status in ('in_progress', 'unknown') and d.kind = 'monitor'
      and d.result_received_at is null
) l
left join lateral (
    select avg((x.outcome in ('returned', 'lease_expired', 'revoked'))::int) as abort_rate
    from desktop_task_attempts x where x.client_id = c.id and x.ended_at > now() - interval '1 minute'
) a on true
where c.tenant_id = any($1::bigint[]) and ($2::bigint is null or c.workspace_id = $2)
  and c.online and c.healthy and c.revoked_at is null and c.last_heartbeat_at > now() - interval '30 seconds'

-- name: platform_holders
-- Who holds a platform of the tenant now, and whether an accept could make it give way: a row a task.
select ai_platform_id, target_client_id,
    (status = 'queued' and lane <> 'high' or status = 'in_progress' and source = 'daily_schedule') as gives_way
from desktop_tasks
where tenant_id = $1 and kind = 'monitor' and status in ('queued', 'in_progress', 'unknown')
  and result_received_at is null
