-- name: list_settings
-- What was ever set; the rest is at its default. A handful of rows.
select key, version, updated_by, updated_at from dispatch_settings

-- name: list_fuses
select key, value, updated_by, updated_at from dispatch_fuses

-- name: read_platforms
-- Every platform, or one; version 0: nothing was ever set for it.
select p.id, p.name, p.enabled, s.max_concurrent, s.interrupt_soft_timeout_ms, s.interrupt_hard_timeout_ms,
    coalesce(s.timeouts_pinned, false) as timeouts_pinned, coalesce(s.paused, false) as paused,
    coalesce(s.version, 0) as version, s.updated_at
from ai_platforms p left join platform_settings s on s.platform_id = p.id
where $1::text is null or p.id = $1
order by p.id

-- name: write_platform
-- The whole row, with its audit: what was, what is, who. Timeouts given by hand are pinned: the retuning leaves them.
with old as (
    select max_concurrent, interrupt_soft_timeout_ms, interrupt_hard_timeout_ms, paused from platform_settings
    where platform_id = $1
), written as (
    insert into platform_settings as s (platform_id, max_concurrent, interrupt_soft_timeout_ms, interrupt_hard_timeout_ms,
        timeouts_pinned, paused)
    values ($1, $2, $3, $4, $5, $6)
    on conflict (platform_id) do update
    set max_concurrent = excluded.max_concurrent, interrupt_soft_timeout_ms = excluded.interrupt_soft_timeout_ms,
        interrupt_hard_timeout_ms = excluded.interrupt_hard_timeout_ms, timeouts_pinned = excluded.timeouts_pinned,
        paused = excluded.paused, version = s.version + 1, updated_at = now()
    returning s.*
)
insert into audit_events (actor, action, subject, detail)
select $7, 'platform_changed', 'platform ' || $1, jsonb_build_object('before', (select to_jsonb(o) from old o),
    'after', jsonb_build_object('max_concurrent', w.max_concurrent, 'interrupt_soft_timeout_ms', w.interrupt_soft_timeout_ms,
        'interrupt_hard_timeout_ms', w.interrupt_hard_timeout_ms, 'paused', w.paused))
from written w

-- name: read_tenants
-- By id; $2: after this one.
select id, name, fair_weight, dispatch_per_minute, paused, settings_version as version from tenants
where ($1::bigint is null or id = $1) and ($2::bigint is null or id > $2)
order by id
limit $3

-- name: lock_tenant
-- Its version stays what was read until the change is written.
select id, fair_weight, dispatch_per_minute, paused, settings_version as version from tenants
where id = $1 for no key update

-- name: write_tenant
-- Together with its audit; the caller holds the row.
with written as (
    update tenants set fair_weight = $2, dispatch_per_minute = $3, paused = $4, settings_version = settings_version + 1
    where id = $1
    returning id
)
insert into audit_events (tenant_id, actor, action, subject, detail)
select id, $5, 'tenant_changed', 'tenant ' || id::text, jsonb_build_object('before', $6::jsonb, 'after',
    jsonb_build_object('fair_weight', $2::int, 'dispatch_per_minute', $3::int, 'paused', $4::boolean))
from written

-- name: lock_client
-- Any tenant's; revoked ones are over.
select id, tenant_id, max_concurrent, max_queue_depth, paused, settings_version as version from desktop_clients
where id = $1 and revoked_at is null for no key update

-- name: write_client
-- Together with its audit; the caller holds the row. A number of slots given here outlasts the desktop's own.
with written as (
    update desktop_clients
    set max_concurrent = $2::int, max_queue_depth = $3, paused = $4, slots_pinned = $2::int is not null,
        paused_at = case when $4::boolean then case when paused then paused_at else now() end end,
        settings_version = settings_version + 1
    where id = $1
    returning id, tenant_id
)
insert into audit_events (tenant_id, actor, action, subject, detail)
select tenant_id, $5, 'client_changed', 'client ' || id::text, jsonb_build_object('before', $6::jsonb, 'after',
    jsonb_build_object('max_concurrent', $2::int, 'max_queue_depth', $3::int, 'paused', $4::boolean))
from written
