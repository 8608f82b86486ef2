-- name: room_to_register
-- Desktops of the tenant that are not revoked, and registrations of the last hour, revoked ones included: ids are in order
-- of time. Neither is counted past the limit ($2).
select (select count(*)::int from (select from desktop_clients where tenant_id = $1 and revoked_at is null limit $2) s)
        as standing,
    (select count(*)::int from (select from desktop_clients where tenant_id = $1 and id > $3
        and created_at > now() - interval '1 hour' limit $2) r) as recent

-- name: register_client
-- Only into a workspace of the tenant: another's is as good as missing.
with made as (
    insert into desktop_clients (id, tenant_id, workspace_id, user_id, name, token_hash, version, token_issued_at, event_count)
    select $1, w.tenant_id, w.id, $4, $5, $6, $7, now(), 1 from workspaces w where w.tenant_id = $2 and w.id = $3
    returning id
)
insert into desktop_client_events (client_id, slot, number, kind, epoch) select id, 1, 1, 'registered', 0 from made
returning client_id

-- name: authenticate_device
-- By the token's hash alone: the token says who it is. A revoked one is unknown.
select id, tenant_id from desktop_clients where token_hash = $1 and revoked_at is null

-- name: lock_client
-- Of the tenant, in the workspaces that the caller may see (null: all). Others are as good as missing.
select id, tenant_id, name, revoked_at from desktop_clients
where id = $1 and tenant_id = $2 and ($3::bigint[] is null or workspace_id = any($3))
for no key update

-- name: revoke_client
-- Once: the time of the first revocation stays. Offline from now on, so that nothing new is dispatched to it.
update desktop_clients
set revoked_at = coalesce(revoked_at, now()), online = false, connection_epoch = connection_epoch + 1,
    disconnected_at = case when online then now() else disconnected_at end,
    last_close_code = case when online then $2 else last_close_code end
where id = $1
returning connection_epoch

-- name: replace_token
-- The old token is nobody's from now on. Tasks and leases stay: the desktop comes back with the new one.
update desktop_clients
set token_hash = $2, token_issued_at = now(), online = false, connection_epoch = connection_epoch + 1,
    disconnected_at = case when online then now() else disconnected_at end,
    last_close_code = case when online then $3 else last_close_code end
where id = $1
returning connection_epoch

-- name: rename_client
update desktop_clients set name = $2 where id = $1

-- name: unended_of_client
-- What waits or runs there, a result that was received aside: that one is ingest's.
select id from desktop_tasks
where tenant_id = $1 and target_client_id = $2 and kind = 'monitor' and status in ('queued', 'in_progress', 'unknown')
  and result_received_at is null
order by id

-- name: audit
insert into audit_events (tenant_id, actor, action, subject, detail) values ($1, $2, $3, 'client ' || $4::uuid::text, $5)
