-- name: read_dispatch_settings
-- A handful of rows; read each round, so that a change is in force at once everywhere. Fuses come with them.
select key, value, false as is_fuse from dispatch_settings
union all
select key, to_jsonb(value), true from dispatch_fuses

-- name: read_platform_limits
-- Every enabled platform, with its own limits where it has some.
select p.id, s.max_concurrent, s.interrupt_soft_timeout_ms, s.interrupt_hard_timeout_ms, coalesce(s.paused, false) as paused
from ai_platforms p left join platform_settings s on s.platform_id = p.id
where p.enabled

-- name: lock_settings
-- The lock of pauses too (pauses.sql: lock_rounds): they change settings as well. A row that is not there yet can't be locked,
-- and a change waits for the round under way.
select pg_advisory_xact_lock(hashtextextended('giveway:rounds', 0))

-- name: setting_version
-- 0: never set, the default is in force.
select coalesce((select version from dispatch_settings where key = $1), 0)

-- name: write_dispatch_setting
-- Setting and audit in one statement: neither is ever there without the other.
with old as (
    select value from dispatch_settings where key = $1
), written as (
    insert into dispatch_settings as s (key, value, updated_by) values ($1, $2, $3)
    on conflict (key) do update set value = excluded.value, version = s.version + 1, updated_by = $3, updated_at = now()
    returning version
), audited as (
    insert into audit_events (actor, action, subject, detail)
    values ($3, 'setting_changed', $1, jsonb_build_object('before', (select value from old), 'after', $2::jsonb))
)
select version from written

-- name: write_fuse
-- Fuse and audit in one statement.
with old as (
    select value from dispatch_fuses where key = $1
), written as (
    insert into dispatch_fuses as f (key, value, updated_by) values ($1, $2, $3)
    on conflict (key) do update set value = excluded.value, updated_by = $3, updated_at = now()
)
insert into audit_events (actor, action, subject, detail)
values ($3, 'fuse_changed', $1, jsonb_build_object('before', (select value from old), 'after', $2::float8))
