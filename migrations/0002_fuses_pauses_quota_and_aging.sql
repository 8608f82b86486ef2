-- 1-dispatch §1.3, §1.4: hard ceilings of an installation, pauses, the minute windows, cluster quota of several
-- coordinators, aging.

-- Hard ceilings that differ from the defaults (domain/dispatch_settings.py). Not hot settings: the ops API cannot raise them.
create table dispatch_fuses (
    key text primary key,
    value double precision not null check (value > 0),
    updated_by text,
    updated_at timestamptz not null default now()
);

-- No new work for anybody of this tenant.
alter table tenants add column paused boolean not null default false;

-- The sliding minute windows: what each round dispatched, a row a tenant. A window is a sum over a minute's rounds, not a
-- count of a minute's dispatches, so that it costs the same whatever the fuses allow. Rows older than a minute are nobody's.
create table dispatch_ledger (
    tenant_id bigint not null,
    at timestamptz not null default now(),
    scheduled integer not null check (scheduled >= 0),
    high integer not null check (high >= 0)
);
-- squawk-ignore require-concurrent-index-creation
create index dispatch_ledger_at on dispatch_ledger (at);

-- Blocks of the cluster's minute that one coordinator of several has taken and not used yet (§1.4). A permit becomes a
-- dispatch in the transaction that uses it; what is left at `expires_at` is nobody's.
create table dispatch_quota (
    shard integer primary key,
    epoch bigint not null,
    scheduled_permits integer not null default 0 check (scheduled_permits >= 0),
    high_permits integer not null default 0 check (high_permits >= 0),
    -- Its last round had scheduled work that lacked a permit: the floor holds for it.
    normal_waits boolean not null default false,
    expires_at timestamptz not null default now()
);

-- Who owns a tenant, and over whose tasks a platform is counted, never changes inside a round: each round holds the lock
-- shared (dispatch.sql: lock_rounds_shared), whoever changes one of these settings takes it alone.
create function wait_for_rounds() returns trigger language plpgsql as $$
begin
    if coalesce(new.key, old.key) in ('coordinator_shards', 'platform_concurrency_scope') then
        perform pg_advisory_xact_lock(hashtextextended('giveway:rounds', 0));
    end if;
    return coalesce(new, old);
end $$;
create trigger dispatch_settings_wait_for_rounds before insert or update or delete on dispatch_settings
    for each row execute function wait_for_rounds();

-- A task's priority before aging raised it, so that it can be raised again as it waits on; read in `normal_boosted` only.
alter table monitoring_collect_tasks add column unaged_priority integer;

-- The twin of domain/aging.py: by the database's clock, and in one place for promotion and re-scoring. The tiny summand
-- keeps whole powers of two whole.
create function aged_priority(base integer, waited interval) returns integer
    language sql immutable parallel safe
    return least(4999, greatest(1000, 1000 + base - 100
        + least(900, floor(50 * ln(1 + greatest(extract(epoch from waited)::float8, 0) / 300) / ln(2::float8) + 1e-9)::integer)));

-- Each dispatch paid for a look-up that says nothing new: an execution task's client, and a monitor task's business task,
-- are of a tenant that exists.
-- squawk-ignore ban-drop-constraint
alter table desktop_tasks drop constraint if exists desktop_tasks_tenant_id_fkey;
