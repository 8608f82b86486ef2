-- name: lock_client
-- The epoch's connection must be the newest one: an older hub neither leases nor reports for a client it lost. `works`:
-- there is something to look at. What comes while the lock is waited for is not in it: its hint is still to come.
select c.id, c.highest_generation_seen, t.interrupt_generation, exists (select from desktop_proxy_calls p
    where p.client_id = c.id and p.state = 'waiting' and p.deadline > now()) as asked, exists (select from desktop_tasks d
    where d.target_client_id = c.id and d.tenant_id = $2 and d.status in ('queued', 'in_progress', 'unknown')) as works
from desktop_clients c join tenants t on t.id = c.tenant_id
where c.id = $1 and c.tenant_id = $2 and c.connection_epoch = $3 and c.revoked_at is null
for no key update of c

-- name: note_generation
-- The highest the desktop says it has seen.
update desktop_clients set highest_generation_seen = greatest(highest_generation_seen, $2) where id = $1

-- name: move_generation_past
-- A restored database may be behind what its desktops have seen; orders must never look old to them.
update tenants set interrupt_generation = $2 where id = $1 and interrupt_generation < $2

-- name: lock_business_of_client
-- Business tasks first, by id.
select t.id from monitoring_collect_tasks t
where t.id in (select d.monitor_task_id from desktop_tasks d
               where d.target_client_id = $1 and d.tenant_id = $2 and d.status in ('queued', 'in_progress', 'unknown'))
order by t.id
for no key update

-- name: lock_live_of_client
-- Everything that the client has or is about to have, under lock.
select d.id, d.status, d.attempt_id, d.result_received_at, d.lease_token_hash is not null as leased,
    coalesce(d.lease_expires_at <= now(), true) as expired,
    coalesce(d.control_flags ->> 'interrupt_requested' = 'true', false) as interrupt_requested
from desktop_tasks d
where d.target_client_id = $1 and d.tenant_id = $2 and d.kind = 'monitor'
  and d.status in ('queued', 'in_progress', 'unknown')
order by d.id
for no key update

-- name: extend_held
-- What the client says it holds keeps its lease; what it runs is in progress, whatever was believed before. Its own
-- tasks alone, whose rows lock_live_of_client has locked: ids are no secret between tenants.
update desktop_tasks d
set lease_expires_at = now() + make_interval(secs => $4), phase = coalesce(h.phase, d.phase),
    status = case d.status when 'unknown' then 'in_progress' else d.status end, updated_at = now()
from unnest($1::uuid[], $2::uuid[], $3::text[]) as h(task_id, attempt_id, phase)
where d.id = h.task_id and d.attempt_id = h.attempt_id and d.target_client_id = $5 and d.tenant_id = $6
  and d.kind = 'monitor' and d.lease_token_hash is not null and d.result_received_at is null
  and (d.status in ('in_progress', 'unknown') or (d.status = 'queued' and d.lease_expires_at > now()))
returning d.id, d.attempt_id, d.status, d.lease_expires_at

-- name: find_taken_away
-- Attempts that a client lists though the server has ended them. Ends that the desktop brought about itself are left
-- out: its beat was on its way meanwhile. What it is posting is judged by the result call.
select h.client_id, h.attempt_id
from unnest($1::uuid[], $2::uuid[], $3::text[]) as h(client_id, attempt_id, phase)
join desktop_task_attempts a on a.id = h.attempt_id and a.client_id = h.client_id
where a.outcome in ('cancelled', 'lease_expired', 'revoked', 'replaced', 'superseded')
  and a.result_received_at is null and h.phase is distinct from 'POSTING'

-- name: lock_grantable
-- Tasks ($1) that wait, unleased, for the connections ($2 to $4: client, tenant, epoch) they were announced to. A hint
-- delivered twice leases once, and the epoch must be the newest one. Clients by id, then tasks by id, and nobody is waited
-- for: what another transaction holds at this moment is not `locked`, and asked for again.
with asked as (
    select * from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[]) as a(task_id, client_id, tenant_id, epoch)
), wanted as materialized (
    select d.id, d.target_client_id, a.epoch
    from asked a
    join desktop_clients c on c.id = a.client_id and c.tenant_id = a.tenant_id and c.connection_epoch = a.epoch
    join desktop_tasks d on d.id = a.task_id and d.target_client_id = a.client_id and d.tenant_id = a.tenant_id
    where c.revoked_at is null and d.kind = 'monitor' and d.status = 'queued' and d.lease_token_hash is null
), locked_clients as materialized (
    select c.id from desktop_clients c
    join (select distinct target_client_id, epoch from wanted) w on w.target_client_id = c.id
    where c.connection_epoch = w.epoch and c.revoked_at is null
    order by c.id
    for no key update of c skip locked
), locked_tasks as materialized (
    select d.id from desktop_tasks d
    join wanted w on w.id = d.id and w.target_client_id = d.target_client_id
    join locked_clients l on l.id = d.target_client_id
    where d.status = 'queued' and d.lease_token_hash is null
    order by d.id
    for no key update of d skip locked
)
select w.id, w.target_client_id, w.epoch, l.id is not null as locked
from wanted w left join locked_tasks l on l.id = w.id

-- name: grant_leases
-- Token, expiry and attempt together, with everything the frame says. A former lease of the row ends here.
with granted as (
    update desktop_tasks d
    set attempt = d.attempt + 1, attempt_id = g.attempt_id, lease_token_hash = g.token_hash,
        lease_expires_at = now() + make_interval(secs => $4), updated_at = now()
    from unnest($1::uuid[], $2::uuid[], $3::bytea[]) as g(task_id, attempt_id, token_hash)
    where d.id = g.task_id and d.status = 'queued'
    returning d.*
), replaced as (
    update desktop_task_attempts a set ended_at = now(), outcome = 'replaced'
    from granted g where a.task_id = g.id and a.ended_at is null
), opened as (
    insert into desktop_task_attempts (id, tenant_id, task_id, monitor_task_id, client_id, attempt, token_hash, generation,
        question_version_id)
    select g.attempt_id, g.tenant_id, g.id, g.monitor_task_id, g.target_client_id, g.attempt, g.lease_token_hash,
        g.interrupt_generation, b.question_version_id
    from granted g join monitoring_collect_tasks b on b.id = g.monitor_task_id
)
select g.id, g.kind, g.target_client_id, g.priority, g.lane, g.lane_weight, g.status, g.scheduler_group_key,
    t.business_date, g.interrupt_generation, g.updated_at, g.enqueued_at, g.source, t.execution_owner, g.attempt,
    g.attempt_id, g.lease_expires_at, t.ai_platform_id, v.text as question, t.collect_request_id, g.payload
from granted g
join monitoring_collect_tasks t on t.id = g.monitor_task_id
join question_versions v on v.id = t.question_version_id
order by g.lane_weight desc, g.priority desc, g.enqueued_at, g.id

-- name: pending_interrupts
-- Orders to stop that have not been settled; a desktop that lost the frame gets them again.
select d.id, d.kind, d.target_client_id, d.interrupt_reason, d.interrupt_generation, d.updated_at
from desktop_tasks d
where d.target_client_id = $1 and d.tenant_id = $2 and d.status in ('in_progress', 'unknown')
  and d.result_received_at is null and d.lease_token_hash is not null
  and d.control_flags ->> 'interrupt_requested' = 'true'
order by d.id

-- name: mark_pushed
-- The first frame counts; the request's dispatch clock starts with it. What was taken back meanwhile was not dispatched.
with pushed as (
    update desktop_tasks d set pushed_at = now()
    where d.id = any($1::uuid[]) and d.pushed_at is null and d.status <> 'aborted'
    returning d.id, d.monitor_task_id
)
update monitoring_collect_tasks t
set last_dispatched_at = now()
from pushed p
where t.id = p.monitor_task_id
returning t.collect_request_id
