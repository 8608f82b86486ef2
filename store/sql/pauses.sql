-- name: lock_rounds
-- Waits for the round under way, and no other begins before this transaction ends: what it dispatched is seen, and what is
-- paused now is paused for the next one. First of all locks.
select pg_advisory_xact_lock(hashtextextended('giveway:rounds', 0))

-- name: pause_lane
-- One of the hot settings: the list of lanes, changed in place. No row: it was paused already.
insert into dispatch_settings as s (key, value, updated_by) values ('paused_lanes', jsonb_build_array($1::text), $2)
on conflict (key) do update
set value = s.value || jsonb_build_array($1::text), version = s.version + 1, updated_by = $2, updated_at = now()
where not s.value ? $1::text
returning true as changed

-- name: resume_lane
-- No row: it was not paused.
update dispatch_settings set value = value - $1::text, version = version + 1, updated_by = $2, updated_at = now()
where key = 'paused_lanes' and value ? $1::text
returning true as changed

-- name: set_tenant
-- `changed`: whether it was otherwise before. No row: there is no such tenant.
update tenants n set paused = $2, settings_version = n.settings_version + (n.paused <> $2)::int
from (select id, paused from tenants where id = $1 for no key update) o
where n.id = o.id
returning o.paused <> $2 as changed

-- name: set_platform
with old as (
    select p.id, coalesce(s.paused, false) as paused
    from ai_platforms p left join platform_settings s on s.platform_id = p.id where p.id = $1
), written as (
    insert into platform_settings as s (platform_id, paused) select id, $2 from old where paused <> $2
    on conflict (platform_id) do update set paused = $2, version = s.version + 1, updated_at = now()
)
select paused <> $2 as changed from old

-- name: set_client
update desktop_clients c
set paused = $2, settings_version = c.settings_version + (c.paused <> $2)::int,
    paused_at = case when $2::boolean then case when c.paused then c.paused_at else now() end end
from (select id, paused from desktop_clients where id = $1 and revoked_at is null for no key update) o
where c.id = o.id
returning o.paused <> $2 as changed

-- name: audit
insert into audit_events (tenant_id, actor, action, subject, detail)
values (coalesce($1, (select tenant_id from desktop_clients where id = $2)), $3, $4, $5, $6)

-- name: find_queued
-- Execution tasks that wait on a desktop and have not started, of one lane, tenant, platform or client; bounded.
select id from desktop_tasks
where kind = 'monitor' and status = 'queued' and result_received_at is null and ($1::text is null or lane = $1)
  and ($2::bigint is null or tenant_id = $2) and ($3::text is null or ai_platform_id = $3)
  and ($4::uuid is null or target_client_id = $4)
order by id
limit $5

-- name: find_offered
-- The same of the legacy path: offers that nobody has taken.
select id from monitoring_collect_tasks
where legacy_offer_expires_at is not null and status = 'pending' and ($1::text is null or dispatch_lane = $1)
  and ($2::bigint is null or tenant_id = $2) and ($3::text is null or ai_platform_id = $3)
  and ($4::uuid is null or target_client_id = $4)
order by id
limit $5
for no key update skip locked

-- name: withdraw_offers
-- Nobody has them: they are simply not on offer any more. What an open request bound stays bound.
update monitoring_collect_tasks t
set legacy_offer_expires_at = null, last_dispatched_at = null, updated_at = now(),
    target_client_id = case when exists (select from monitoring_collect_requests r
        where r.id = t.collect_request_id and r.status in ('accepted', 'dispatching', 'running')) then t.target_client_id end
where t.id = any($1::bigint[]) and t.legacy_offer_expires_at is not null and t.status = 'pending'
returning t.id
