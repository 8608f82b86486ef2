-- name: client_known
-- Another tenant's client and a missing one are indistinguishable.
select exists (select from desktop_clients where tenant_id = $1 and id = $2 and revoked_at is null)

-- name: tenant_paused
select paused from tenants where id = $1

-- name: lock_client
-- After the tenant and before any task.
select id from desktop_clients where id = $1 for no key update

-- name: read_clients
select * from available_desktops where tenant_id = any($1::bigint[]) and ($2::bigint is null or workspace_id = $2)

-- name: platform_holders
-- Who holds a platform of the tenant now, and whether an accept could make it give way: a row a task.
select ai_platform_id, target_client_id,
    (status = 'queued' and lane <> 'high' or status = 'in_progress' and source = 'daily_schedule') as gives_way
from desktop_tasks
where tenant_id = $1 and kind = 'monitor' and status in ('queued', 'in_progress', 'unknown')
  and result_received_at is null
union all
-- A legacy lease may run to its end, whoever clicks; an offer is taken back.
select ai_platform_id, leased_to_executor, false from monitoring_collect_tasks
where tenant_id = $1 and leased_to_executor is not null and status = 'leased'
union all
select ai_platform_id, target_client_id, dispatch_lane <> 'high' from monitoring_collect_tasks
where tenant_id = $1 and legacy_offer_expires_at > now() and status = 'pending' and active_task_id is null
