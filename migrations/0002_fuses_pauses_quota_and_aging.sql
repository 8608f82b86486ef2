-- 1-dispatch §1.3, §1.4: hard ceilings of an installation, pauses, cluster quota of several coordinators.

-- Hard ceilings that differ from the defaults (domain/dispatch_settings.py). Not hot settings: the ops API cannot raise them.
create table dispatch_fuses (
    key text primary key,
    value double precision not null check (value > 0),
    updated_by text,
    updated_at timestamptz not null default now()
);

-- No new work for anybody of this tenant.
alter table tenants add column paused boolean not null default false;

-- Blocks of the cluster's minute that one coordinator of several has taken and not used yet (§1.4). A permit becomes a
-- dispatch in the transaction that uses it; what is left at `expires_at` is nobody's.
create table dispatch_quota (
    shard integer primary key,
    epoch bigint not null,
    scheduled_permits integer not null default 0 check (scheduled_permits >= 0),
    high_permits integer not null default 0 check (high_permits >= 0),
    expires_at timestamptz not null default now()
);
