-- name: register_client
-- Only into a workspace of the tenant: another's is as good as missing.
insert into desktop_clients (id, tenant_id, workspace_id, user_id, name, token_hash, version)
select $1, w.tenant_id, w.id, $4, $5, $6, $7 from workspaces w where w.tenant_id = $2 and w.id = $3
returning id

-- name: authenticate_device
-- By the token's hash alone: the token says who it is. A revoked one is unknown.
select id, tenant_id from desktop_clients where token_hash = $1 and revoked_at is null

-- name: list_clients
-- Revoked ones stay listed: their past work names them.
select c.id, c.workspace_id, c.user_id, c.name, c.online, c.healthy, c.paused, c.last_heartbeat_at, c.max_concurrent,
    c.platform_sessions, c.version, c.revoked_at, c.created_at,
    (select count(*)::int from desktop_tasks d where d.target_client_id = c.id and d.tenant_id = $1
        and d.kind = 'monitor' and d.status = 'in_progress' and d.result_received_at is null)
    + (select count(*)::int from monitoring_collect_tasks t where t.leased_to_executor = c.id and t.tenant_id = $1
        and t.status = 'leased') as running,
    (select count(*)::int from desktop_tasks d where d.target_client_id = c.id and d.tenant_id = $1
        and d.kind = 'monitor' and d.status = 'queued')
    + (select count(*)::int from monitoring_collect_tasks t where t.target_client_id = c.id and t.tenant_id = $1
        and t.legacy_offer_expires_at > now() and t.status = 'pending') as queued
from desktop_clients c
where c.tenant_id = $1 and ($2::bigint[] is null or c.workspace_id = any($2))
order by c.created_at desc, c.id

-- name: revoke_client
-- Once: the time of the first revocation stays. Offline from now on, so that nothing new is dispatched to it.
update desktop_clients
set revoked_at = coalesce(revoked_at, now()), online = false, connection_epoch = connection_epoch + 1
where tenant_id = $1 and id = $2
returning connection_epoch

-- name: queued_of_client
-- What only waits there.
select id from desktop_tasks
where tenant_id = $1 and target_client_id = $2 and kind = 'monitor' and status = 'queued'
order by id
