-- 2-desktop §2.1: what an operator sees of a desktop. Written by the statements that run anyway: connect, the folded
-- heartbeat, disconnect, the sweep of the silent.
alter table desktop_clients
    -- The hub instance of its newest connection, when that began, and when and how the last one ended.
    add column hub text,
    add column connected_at timestamptz,
    add column disconnected_at timestamptz,
    add column last_close_code integer,
    -- What the desktop itself says that it runs and has waiting.
    add column reported_running integer,
    add column reported_queued integer,
    add column paused_at timestamptz,
    add column token_issued_at timestamptz,
    -- How many events its history has had: the newest hundred are kept.
    add column event_count bigint not null default 0;

-- When the task came into its phase. Five statements set the phase, and one more may come: the table notes it itself.
alter table desktop_tasks add column phase_since timestamptz;

create function note_phase() returns trigger language plpgsql as $$
begin
    new.phase_since := now();
    return new;
end $$;

create trigger desktop_tasks_phase before update of phase on desktop_tasks
    for each row when (new.phase is distinct from old.phase) execute function note_phase();

-- What happened to a desktop: a ring of a hundred, since one that connects every second must not fill the disk. A row is
-- written only under the lock of its client's row, in the statement that changes that.
create table desktop_client_events (
    client_id uuid not null references desktop_clients on delete cascade,
    slot integer not null check (slot between 0 and 99),
    number bigint not null,
    kind text not null check (kind in ('registered', 'connected', 'replaced', 'back', 'disconnected', 'lost', 'revoked',
        'token_rotated', 'sessions_changed', 'health_changed', 'settings_changed')),
    at timestamptz not null default now(),
    epoch bigint not null,
    hub text,
    close_code integer,
    detail jsonb not null default '{}',
    primary key (client_id, slot)
);

-- Entries that differ between two flat objects, each as [before, after]; null: none does. Bounded, as what a desktop says
-- of itself may be anything.
create function changed_entries(old jsonb, new jsonb) returns jsonb language sql immutable parallel safe as $$
    select jsonb_object_agg(k.key, jsonb_build_array(old -> k.key, new -> k.key))
    from (
        select key from (select jsonb_object_keys(old) as key union select jsonb_object_keys(new)) as a
        where old -> key is distinct from new -> key order by key limit 20
    ) as k
$$;

-- The one state of a desktop, and since when. `online`: heard of in the last 30 s; `paused`: online, and gets no new work.
-- `offline`: never connected, or closed its connection itself, or has been away for less than 30 s. `lost`: silent for
-- longer, and did not say goodbye.
create view desktop_client_states as
select c.id, c.tenant_id, c.workspace_id, s.state,
    case s.state
        when 'revoked' then c.revoked_at
        when 'online' then coalesce(c.connected_at, c.last_heartbeat_at)
        when 'paused' then coalesce(greatest(c.paused_at, c.connected_at), c.last_heartbeat_at)
        when 'lost' then coalesce(c.lost_at, c.last_heartbeat_at + interval '30 seconds')
        else coalesce(c.disconnected_at, c.last_heartbeat_at, c.created_at)
    end as since
from desktop_clients c
cross join lateral (
    select case
        when c.revoked_at is not null then 'revoked'
        when c.online and c.last_heartbeat_at > now() - interval '30 seconds'
            then case when c.paused then 'paused' else 'online' end
        when c.last_heartbeat_at is null then 'offline'
        when c.lost_at is null and c.last_heartbeat_at > now() - interval '30 seconds' then 'offline'
        when c.disconnected_at >= c.connected_at and c.last_close_code in (1000, 1001) then 'offline'
        else 'lost'
    end as state
) s;

-- A desktop with its load and how its attempts of the last hour ended. Aborted: what client choice counts against it
-- (`available_desktops`); stops that a click or an operator caused are not its fault, and only in `ended`.
create view fleet_clients as
select c.id, c.tenant_id, c.workspace_id, c.user_id, c.name, s.state, s.since,
    s.state in ('online', 'paused') as online, c.healthy, c.paused, c.hub, c.connection_epoch, c.connected_at,
    c.disconnected_at, c.last_close_code, c.last_heartbeat_at, c.lost_at, c.revoked_at, c.created_at, c.token_issued_at,
    c.max_concurrent, c.max_queue_depth, c.slots_pinned, c.platform_sessions, c.version as program_version, c.protocol,
    c.settings_version, c.highest_generation_seen, c.reported_running, c.reported_queued, c.event_count,
    l.running + o.running as running, l.queued + o.queued as queued, l.unknown, l.high, l.giving_way, l.phases,
    l.busy + o.running as slots_used, a.ended, a.aborted, a.succeeded,
    coalesce(a.aborted::float8 / nullif(a.ended, 0), 0) as abort_rate,
    a.succeeded::float8 / nullif(a.succeeded + a.failed + a.aborted, 0) as success_rate,
    coalesce(a.minute_aborted::float8 / nullif(a.minute_ended, 0), 0) as abort_rate_minute
from desktop_clients c
join desktop_client_states s on s.id = c.id
cross join lateral (
    select count(*) filter (where d.status = 'in_progress' and d.result_received_at is null)::int as running,
        count(*) filter (where d.status = 'queued')::int as queued,
        count(*) filter (where d.status = 'unknown')::int as unknown,
        count(*) filter (where d.lane = 'high')::int as high,
        count(*) filter (where d.status = 'in_progress' and d.control_flags ->> 'interrupt_requested' = 'true')::int
            as giving_way,
        count(*) filter (where d.status in ('in_progress', 'unknown') and d.result_received_at is null)::int as busy,
        coalesce(array_agg(d.phase order by d.phase_since) filter (where d.status = 'in_progress' and d.phase is not null
            and d.result_received_at is null), '{}') as phases
    from desktop_tasks d
    where d.target_client_id = c.id and d.kind = 'monitor' and d.status in ('queued', 'in_progress', 'unknown')
) l
cross join lateral (
    select (select count(*)::int from monitoring_collect_tasks t
            where t.leased_to_executor = c.id and t.leased_to_executor is not null and t.status = 'leased') as running,
        (select count(*)::int from monitoring_collect_tasks t
            where t.target_client_id = c.id and t.status = 'pending' and t.legacy_offer_expires_at > now()) as queued
) o
cross join lateral (
    select count(*)::int as ended, count(*) filter (where e.gone)::int as aborted,
        count(*) filter (where e.outcome = 'succeeded')::int as succeeded,
        count(*) filter (where e.outcome = 'failed')::int as failed,
        count(*) filter (where e.late)::int as minute_ended,
        count(*) filter (where e.late and e.gone)::int as minute_aborted
    from (
        select x.outcome, x.outcome in ('returned', 'lease_expired', 'revoked') as gone,
            x.ended_at > now() - interval '1 minute' as late
        from desktop_task_attempts x where x.client_id = c.id and x.ended_at > now() - interval '1 hour'
    ) e
) a;
