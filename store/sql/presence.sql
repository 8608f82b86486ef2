-- name: connect_client
-- A new connection: its epoch fences every older one. An operator's number of slots outlasts what the desktop says.
update desktop_clients c
set connection_epoch = c.connection_epoch + 1, online = true, lost_at = null, last_heartbeat_at = now(),
    platform_sessions = $3, protocol = $4, version = $5, max_concurrent = case when c.slots_pinned then c.max_concurrent
        else coalesce($6, c.max_concurrent) end,
    highest_generation_seen = greatest(c.highest_generation_seen, $7)
where c.id = $1 and c.tenant_id = $2 and c.revoked_at is null
returning c.connection_epoch

-- name: record_heartbeats
-- All clients of a hub instance at once. A beat of an older connection finds no client and so no task. Rows are locked
-- by id before they change, as everywhere. A waiting task whose lease ran out is the sweeper's. A revoked one that still
-- runs stays unknown; `updated_at` says that it was named, so it is not resolved yet. The coordinator ($10) is woken when a
-- beat says anything new of what the desktop can do: it is back, healthy again, logged in or out.
with beats as (
    select * from unnest($1::uuid[], $2::bigint[], $3::jsonb[], $4::boolean[]) as b(client_id, epoch, sessions, healthy)
), locked_clients as materialized (
    select c.id, not c.online or c.last_heartbeat_at is null or c.last_heartbeat_at <= now() - interval '30 seconds'
        or c.healthy <> b.healthy or c.platform_sessions <> b.sessions as changed
    from desktop_clients c join beats b on b.client_id = c.id and b.epoch = c.connection_epoch
    where c.revoked_at is null
    order by c.id
    for no key update of c
), alive as (
    update desktop_clients c
    set last_heartbeat_at = now(), online = true, lost_at = null, healthy = b.healthy, platform_sessions = b.sessions
    from beats b, locked_clients l
    where c.id = b.client_id and c.connection_epoch = b.epoch and l.id = c.id
    returning c.id
), held as (
    select h.* from unnest($5::uuid[], $6::uuid[], $7::uuid[], $8::text[]) as h(client_id, task_id, attempt_id, phase)
    join alive a on a.id = h.client_id
), locked_tasks as materialized (
    select d.id from desktop_tasks d
    join held h on h.task_id = d.id and h.attempt_id = d.attempt_id and h.client_id = d.target_client_id
    order by d.id
    for no key update of d
), extended as (
    update desktop_tasks d
    set lease_expires_at = case when d.lease_token_hash is null then d.lease_expires_at
            else now() + make_interval(secs => $9) end,
        status = case when d.status = 'unknown' and d.lease_token_hash is not null then 'in_progress' else d.status end,
        phase = coalesce(h.phase, d.phase), updated_at = now()
    from held h, locked_tasks l
    where d.id = h.task_id and l.id = d.id and d.attempt_id = h.attempt_id and d.target_client_id = h.client_id
      and d.result_received_at is null
      and (d.status in ('in_progress', 'unknown') or (d.status = 'queued' and d.lease_expires_at > now()))
)
select pg_notify($10, '') where exists (select from locked_clients where changed)

-- name: disconnect_client
-- The epoch ends with its connection, so that a beat still on its way cannot bring the client back. Not lost yet: it
-- has its 30 s to come back.
update desktop_clients
set online = false, connection_epoch = connection_epoch + 1
where id = $1 and connection_epoch = $2
returning id

-- name: mark_lost
-- Silent for 30 s, by the database's clock; each silence is noticed once. A client that is just being written is skipped:
-- it is not silent.
with silent as (
    select id from desktop_clients
    where lost_at is null and last_heartbeat_at < now() - make_interval(secs => $1)
    order by id
    limit $2
    for no key update skip locked
)
update desktop_clients c
set online = false, lost_at = now()
from silent s
where c.id = s.id
returning c.id, c.connection_epoch, c.lost_at

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
-- did not reach it, or came before the work did.
select d.id from desktop_tasks d
join desktop_clients c on c.id = d.target_client_id
join monitoring_collect_tasks t on t.id = d.monitor_task_id
left join monitoring_collect_requests r on r.id = t.collect_request_id
    and r.status in ('accepted', 'dispatching', 'running')
where d.kind = 'monitor' and d.status = 'queued' and c.lost_at is not null
  and (r.id is null or c.lost_at < now() - make_interval(secs => $2))
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
