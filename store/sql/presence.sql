-- name: connect_client
-- A new connection: its epoch fences every older one. An operator's number of slots outlasts what the desktop says. The
-- history says what it was before, and which logins are others than it had last said. $11: the token it authenticated with,
-- which may have been replaced since; no order to close finds a connection that has no epoch yet. Wakes $12, and says
-- whether there is work of the client's to look at.
with before as (
    select c.id, c.lost_at, c.platform_sessions, c.online and c.last_heartbeat_at > now() - interval '30 seconds' as present
    from desktop_clients c
    where c.id = $1 and c.tenant_id = $2 and c.revoked_at is null and ($11::bytea is null or c.token_hash = $11)
    for no key update of c
), connected as (
    update desktop_clients c
    set connection_epoch = c.connection_epoch + 1, online = true, lost_at = null, last_heartbeat_at = now(),
        platform_sessions = $3, protocol = $4, version = $5, max_concurrent = case when c.slots_pinned
            then c.max_concurrent else coalesce($6, c.max_concurrent) end,
        highest_generation_seen = greatest(c.highest_generation_seen, $7), hub = $8, connected_at = now(),
        reported_running = $9, reported_queued = $10, event_count = c.event_count + 1
    from before b
    where c.id = b.id
    returning c.id, c.connection_epoch, c.event_count, c.hub, c.version
), noted as (
    insert into desktop_client_events (client_id, slot, number, kind, epoch, hub, detail)
    select c.id, c.event_count % 100, c.event_count,
        case when b.present then 'replaced' when b.lost_at is not null then 'back' else 'connected' end,
        c.connection_epoch, c.hub, jsonb_strip_nulls(jsonb_build_object('version', c.version, 'sessions',
            case when b.platform_sessions <> $3 then changed_entries(b.platform_sessions, $3) end))
    from connected c join before b on b.id = c.id
    on conflict (client_id, slot) do update
    set (number, kind, at, epoch, hub, close_code, detail) = (excluded.number, excluded.kind, excluded.at,
        excluded.epoch, excluded.hub, excluded.close_code, excluded.detail)
)
select n.connection_epoch, pg_notify($12, '') is null as woken, exists (select from desktop_tasks d
    where d.target_client_id = n.id and d.tenant_id = $2 and d.status in ('queued', 'in_progress', 'unknown')) as works
from connected n

-- name: record_heartbeats
-- All clients of a hub instance at once. A beat of an older connection finds no client and so no task. Rows are locked
-- by id before they change, as everywhere. A waiting task whose lease ran out is the sweeper's. A revoked one that still
-- runs stays unknown; `updated_at` says that it was named, so it is not resolved yet. The coordinator ($10) is woken when a
-- beat says anything new of what the desktop can do: it is back, healthy again, logged in or out; that is what its history
-- keeps, too. Answers with connections that are over and do not know: a newer one, a revocation or a restored database
-- has taken their epoch, and the order to close them was lost. Who was not there since its token was replaced has the old one.
with beats as (
    select * from unnest($1::uuid[], $2::bigint[], $3::jsonb[], $4::boolean[], $11::int[], $12::int[])
        as b(client_id, epoch, sessions, healthy, running, queued)
), locked_clients as materialized (
    select c.id, b.*, c.healthy as was_healthy, c.platform_sessions as old_sessions,
        not c.online or c.last_heartbeat_at is null or c.last_heartbeat_at <= now() - interval '30 seconds' as away
    from desktop_clients c join beats b on b.client_id = c.id and b.epoch = c.connection_epoch
    where c.revoked_at is null
    order by c.id
    for no key update of c
), changes as (
    select *, away or was_healthy <> healthy or old_sessions <> sessions as changed from locked_clients
), alive as (
    update desktop_clients c
    set last_heartbeat_at = now(), online = true, lost_at = null, healthy = l.healthy, platform_sessions = l.sessions,
        reported_running = l.running, reported_queued = l.queued, event_count = c.event_count + l.changed::int
    from changes l
    where c.id = l.id and c.connection_epoch = l.epoch
    returning c.id, c.event_count, c.hub, l.epoch, l.healthy, l.was_healthy, l.sessions, l.old_sessions, l.away, l.changed
), noted as (
    insert into desktop_client_events (client_id, slot, number, kind, epoch, hub, detail)
    select a.id, a.event_count % 100, a.event_count, case when a.away then 'back'
            when a.old_sessions <> a.sessions then 'sessions_changed' else 'health_changed' end,
        a.epoch, a.hub, jsonb_strip_nulls(jsonb_build_object(
            'healthy', case when a.was_healthy <> a.healthy then a.healthy end,
            'sessions', case when a.old_sessions <> a.sessions then changed_entries(a.old_sessions, a.sessions) end))
    from alive a
    where a.changed
    on conflict (client_id, slot) do update
    set (number, kind, at, epoch, hub, close_code, detail) = (excluded.number, excluded.kind, excluded.at,
        excluded.epoch, excluded.hub, excluded.close_code, excluded.detail)
), held as (
    -- As a hashed lookup and not as a join: whose number of rows the planner takes for one.
    select h.* from unnest($5::uuid[], $6::uuid[], $7::uuid[], $8::text[]) as h(client_id, task_id, attempt_id, phase)
    where (h.client_id in (select id from alive)) is true
), locked_tasks as materialized (
    select d.id, h.client_id, h.attempt_id, h.phase from desktop_tasks d
    join held h on h.task_id = d.id and h.attempt_id = d.attempt_id and h.client_id = d.target_client_id
    order by d.id
    for no key update of d
), extended as (
    update desktop_tasks d
    set lease_expires_at = case when d.lease_token_hash is null then d.lease_expires_at
            else now() + make_interval(secs => $9) end,
        status = case when d.status = 'unknown' and d.lease_token_hash is not null then 'in_progress' else d.status end,
        phase = coalesce(l.phase, d.phase), updated_at = now()
    from locked_tasks l
    where d.id = l.id and d.attempt_id = l.attempt_id and d.target_client_id = l.client_id
      and d.result_received_at is null
      and (d.status in ('in_progress', 'unknown') or (d.status = 'queued' and d.lease_expires_at > now()))
)
select null::uuid as id, null::bigint as tenant_id, null::bigint as connection_epoch, null::boolean as revoked,
    pg_notify($10, '') is null as woken
where exists (select from alive where changed)
union all
select c.id, c.tenant_id, c.connection_epoch,
    c.revoked_at is not null or coalesce(c.token_issued_at > coalesce(c.connected_at, c.last_heartbeat_at), false), null
from beats b join desktop_clients c on c.id = b.client_id
where c.connection_epoch <> b.epoch or c.revoked_at is not null

-- name: disconnect_clients
-- Of many clients at once, a row each. The epoch ends with its connection, so that a beat still on its way cannot bring the
-- client back. Not lost yet: it has its 30 s to come back. Rows are locked by id, as everywhere.
with ends as (
    select * from unnest($1::uuid[], $2::bigint[], $3::int[]) as e(client_id, epoch, code)
), locked as materialized (
    select c.id from desktop_clients c join ends e on e.client_id = c.id and e.epoch = c.connection_epoch
    order by c.id
    for no key update of c
), closed as (
    update desktop_clients c
    set online = false, connection_epoch = c.connection_epoch + 1, disconnected_at = now(), last_close_code = e.code,
        event_count = c.event_count + 1
    from ends e, locked l
    where c.id = e.client_id and c.connection_epoch = e.epoch and l.id = c.id
    returning c.id, c.event_count, e.epoch, c.hub, e.code
)
insert into desktop_client_events (client_id, slot, number, kind, epoch, hub, close_code)
select id, event_count % 100, event_count, 'disconnected', epoch, hub, code from closed
on conflict (client_id, slot) do update
set (number, kind, at, epoch, hub, close_code, detail) = (excluded.number, excluded.kind, excluded.at, excluded.epoch,
    excluded.hub, excluded.close_code, excluded.detail)

-- name: mark_lost
-- Silent for 30 s, by the database's clock; each silence is noticed once. A client that is just being written is skipped:
-- it is not silent, and nobody is waited for, so the order may be the index's: sorted by id, the whole fleet was read every
-- second. A revoked one is silent for good, which its history says already.
with silent as (
    select id from desktop_clients
    where lost_at is null and last_heartbeat_at < now() - make_interval(secs => $1)
    order by last_heartbeat_at
    limit $2
    for no key update skip locked
), lost as (
    update desktop_clients c
    set online = false, lost_at = now(), event_count = c.event_count + (c.revoked_at is null)::int
    from silent s
    where c.id = s.id
    returning c.id, c.connection_epoch, c.lost_at, c.revoked_at, c.event_count, c.hub
), noted as (
    insert into desktop_client_events (client_id, slot, number, kind, epoch, hub)
    select id, event_count % 100, event_count, 'lost', connection_epoch, hub from lost where revoked_at is null
    on conflict (client_id, slot) do update
    set (number, kind, at, epoch, hub, close_code, detail) = (excluded.number, excluded.kind, excluded.at,
        excluded.epoch, excluded.hub, excluded.close_code, excluded.detail)
)
select id, connection_epoch, lost_at from lost

-- name: forget_histories
-- Of desktops revoked over a month ago; bounded.
with over as (
    select id from desktop_clients
    where revoked_at < now() - interval '30 days' and event_count > 0
    order by revoked_at
    limit $1
    for no key update skip locked
), gone as (
    delete from desktop_client_events e using over o where e.client_id = o.id
)
update desktop_clients c set event_count = 0 from over o where c.id = o.id
returning c.id

-- name: requests_of_clients
-- Open requests bound to these clients as a whole, or with a task of theirs still waiting for one.
select r.id, r.tenant_id, c.client_id from monitoring_collect_requests r
join unnest($1::uuid[]) as c(client_id) on r.target_client_id = c.client_id
where r.status in ('accepted', 'dispatching', 'running')
union
select r.id, r.tenant_id, t.target_client_id from monitoring_collect_tasks t
join monitoring_collect_requests r on r.id = t.collect_request_id and r.status in ('accepted', 'dispatching', 'running')
where t.target_client_id = any($1::uuid[]) and t.status = 'pending'
order by 1, 3

-- name: queued_of_lost
-- Work that waits on a lost desktop. High work of an open request is its workflow's for $2 seconds: after that the signal
-- did not reach it, or came before the work did. From the lost to their work, and not through all that waits.
select d.id from desktop_clients c
cross join lateral (
    select w.id, w.monitor_task_id from desktop_tasks w
    where w.target_client_id = c.id and w.kind = 'monitor' and w.status = 'queued'
    limit $1
) d
join monitoring_collect_tasks t on t.id = d.monitor_task_id
left join monitoring_collect_requests r on r.id = t.collect_request_id
    and r.status in ('accepted', 'dispatching', 'running')
where c.lost_at is not null and (r.id is null or c.lost_at < now() - make_interval(secs => $2))
order by d.id
limit $1

-- name: expired_queued
-- Leased, never started, over.
select id from desktop_tasks
where status = 'queued' and lease_expires_at <= now() and result_received_at is null and kind = 'monitor'
order by lease_expires_at
limit $1

-- name: expired_running
-- Started, and nobody has said for a lease's length that it still runs.
select id from desktop_tasks
where status = 'in_progress' and lease_expires_at <= now() and result_received_at is null and kind = 'monitor'
order by lease_expires_at
limit $1

-- name: make_unknown
-- Neither running nor over: it keeps its business task until somebody knows. The attempt stays open, so that a desktop
-- which comes back with it goes on.
update desktop_tasks
set status = 'unknown', updated_at = now()
where id = any($1::uuid[]) and status = 'in_progress' and lease_expires_at <= now() and result_received_at is null
returning id

-- name: resolvable_unknown
-- Known to be over: the client has spoken since without naming it, or is lost and past the lease. A revoked one also
-- a lease's length after the revocation, whatever the client says; it counts no attempt, since the server took it. $1:
-- only these of them, or all (null).
select d.id, d.tenant_id, d.lease_token_hash is null or d.attempt_id is null as revoked from desktop_tasks d
join desktop_clients c on c.id = d.target_client_id
left join desktop_task_attempts a on a.id = d.attempt_id
where d.kind = 'monitor' and d.status = 'unknown' and d.result_received_at is null
  and ($1::uuid[] is null or d.id = any($1))
  and ((c.online and c.last_heartbeat_at > d.updated_at)
    or (c.lost_at is not null and (d.lease_token_hash is null or d.lease_expires_at <= now()))
    or (d.lease_token_hash is null and coalesce(a.ended_at, d.updated_at) < now() - make_interval(secs => $3)))
order by d.id
limit $2

-- name: never_ingested
-- Received, and not ingested for so long that the message is gone: the broker lost its queues after it had confirmed. $3:
-- only these of them, or all (null).
select id, tenant_id from desktop_tasks
where kind = 'monitor' and status in ('in_progress', 'unknown') and result_received_at is not null
  and result_received_at < now() - make_interval(secs => $1) and ($3::uuid[] is null or id = any($3))
order by result_received_at
limit $2

-- name: unhinted
-- Waits without a lease on a connected desktop longer than a push ever takes: the hint was lost on its way.
select d.id, d.tenant_id, d.target_client_id, d.lane from desktop_tasks d
join desktop_clients c on c.id = d.target_client_id
where d.kind = 'monitor' and d.status = 'queued' and d.lease_token_hash is null and c.online
  and d.updated_at < now() - make_interval(secs => $1)
order by d.id
limit $2
for no key update of d skip locked

-- name: touch_tasks
-- The next hint is due as long after this one.
update desktop_tasks set updated_at = now() where id = any($1::uuid[])

-- name: requests_of_executions
-- Whom the business tasks of these execution rows belong to.
select coalesce(array_agg(distinct t.collect_request_id), '{}')
from desktop_tasks d join monitoring_collect_tasks t on t.id = d.monitor_task_id
where d.id = any($1::uuid[]) and t.collect_request_id is not null

-- name: lock_batches_of_executions
-- After the requests, by id.
select b.id from scheduled_batches b
where b.id = any(array(
    select t.batch_id from desktop_tasks d join monitoring_collect_tasks t on t.id = d.monitor_task_id
    where d.id = any($1::uuid[]) and t.batch_id is not null))
order by b.id
for no key update
