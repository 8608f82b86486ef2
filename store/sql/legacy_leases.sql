-- name: offered_platforms
-- Whose locks a pull takes, in this order, before any row.
select distinct ai_platform_id from monitoring_collect_tasks
where target_client_id = $1 and tenant_id = $2 and legacy_offer_expires_at > now() and status = 'pending'
  and active_task_id is null
order by 1

-- name: lease_offered
-- Dispatch §16.1 item 2, to the letter: the most urgent offers of this client, as many as the client ($5) and each platform
-- ($3, $4) have room for. Token and attempt come with the lease. What changed under way fails the second look.
with offers as (
    select t.id, t.ai_platform_id, row_number() over (order by
        case t.dispatch_lane when 'high' then 70 when 'normal_boosted' then 50 when 'normal' then 40
            when 'retry' then 20 else 0 end desc,
        t.dispatch_priority desc, t.dispatch_after asc nulls first, t.planned_at asc, t.id) as place
    from monitoring_collect_tasks t
    where t.target_client_id = $1 and t.tenant_id = $2 and t.legacy_offer_expires_at > now() and t.status = 'pending'
      and t.active_task_id is null
), placed as (
    select id, ai_platform_id, place, row_number() over (partition by ai_platform_id order by place) as place_there from offers
), takeable as (
    select o.id, o.place from placed o join unnest($3::text[], $4::int[]) as f(platform, free) on f.platform = o.ai_platform_id
    where o.place_there <= f.free
    order by o.place
    limit $5
), locked as materialized (
    select t.id, k.place from monitoring_collect_tasks t join takeable k on k.id = t.id
    where t.target_client_id = $1 and t.legacy_offer_expires_at > now() and t.status = 'pending' and t.active_task_id is null
    order by t.id
    for no key update of t skip locked
), leased as (
    update monitoring_collect_tasks t
    set status = 'leased', lease_token_hash = g.token_hash, leased_to_executor = $1, leased_at = now(),
        lease_expires_at = now() + make_interval(secs => $8), last_dispatched_at = now(), legacy_offer_expires_at = null,
        legacy_interrupt_request_id = null, updated_at = now()
    from (select id, row_number() over (order by place) as number from locked) l
    join unnest($6::uuid[], $7::bytea[]) with ordinality as g(attempt_id, token_hash, number) on g.number = l.number
    where t.id = l.id
    returning t.*, g.attempt_id, l.number
), opened as (
    insert into desktop_task_attempts (id, tenant_id, monitor_task_id, client_id, attempt, token_hash, generation,
        question_version_id)
    select l.attempt_id, l.tenant_id, l.id, l.leased_to_executor,
        1 + (select count(*) from desktop_task_attempts a where a.monitor_task_id = l.id), l.lease_token_hash,
        l.interrupt_generation, l.question_version_id
    from leased l
    returning monitor_task_id, attempt
)
select l.id, l.target_client_id, l.dispatch_priority, l.dispatch_lane, l.question_id, l.business_date,
    l.interrupt_generation, l.updated_at, l.enqueued_at, l.ai_platform_id, v.text as question, l.collect_request_id,
    o.attempt, l.attempt_id, l.lease_expires_at
from leased l
join opened o on o.monitor_task_id = l.id
join question_versions v on v.id = l.question_version_id
order by l.number

-- name: count_offers
select count(*)::int from monitoring_collect_tasks
where target_client_id = $1 and tenant_id = $2 and legacy_offer_expires_at > now() and status = 'pending'
  and active_task_id is null

-- name: find_task
-- Known to whoever has had a lease of it; another client's, or another tenant's, is as good as missing.
select exists (select from desktop_task_attempts
    where monitor_task_id = $1 and tenant_id = $2 and client_id = $3 and task_id is null)

-- name: lock_tasks
-- By id, in a statement of its own: what follows sees the leases as they are under the lock.
select id from monitoring_collect_tasks where id = any($1::bigint[]) order by id for no key update

-- name: read_lease
-- The task with its open attempt, if it has one.
select t.id, t.tenant_id, t.status, t.lease_token_hash, t.leased_to_executor, t.dispatch_lane, t.interrupt_generation,
    t.lease_expires_at <= now() as expired, t.legacy_interrupt_request_id is not null as interrupt_requested,
    t.collect_request_id, a.id as attempt_id, a.started_at
from monitoring_collect_tasks t
left join desktop_task_attempts a on a.monitor_task_id = t.id and a.task_id is null and a.ended_at is null
where t.id = $1

-- name: start
-- The business row has no place for phases; that the attempt has begun is what a lost lease is judged by.
with started as (
    update desktop_task_attempts set started_at = coalesce(started_at, now()) where id = $2
)
update monitoring_collect_tasks
set lease_expires_at = now() + make_interval(secs => $3), updated_at = now()
where id = $1 and status = 'leased'
returning lease_expires_at

-- name: extend
update monitoring_collect_tasks
set lease_expires_at = now() + make_interval(secs => $2), updated_at = now()
where id = $1 and status = 'leased'
returning lease_expires_at

-- name: extend_held
-- What a client lists keeps its lease: only the very attempt, only its own, and only of the newest connection ($5, $6: by
-- client its epoch). A lease that ran out before its start is the sweeper's. By id, as everywhere.
with held as (
    select h.number, h.attempt_id, h.client_id
    from unnest($1::bigint[], $2::uuid[], $3::uuid[]) as h(number, attempt_id, client_id)
    join unnest($5::uuid[], $6::bigint[]) as b(client_id, epoch) on b.client_id = h.client_id
    join desktop_clients c on c.id = b.client_id and c.connection_epoch = b.epoch and c.revoked_at is null
    join desktop_task_attempts a on a.id = h.attempt_id and a.client_id = h.client_id and a.monitor_task_id = h.number
        and a.task_id is null and a.ended_at is null
), locked as materialized (
    select t.id from monitoring_collect_tasks t join held h on h.number = t.id and h.client_id = t.leased_to_executor
    where t.status = 'leased'
    order by t.id
    for no key update of t
)
update monitoring_collect_tasks t
set lease_expires_at = now() + make_interval(secs => $4), updated_at = now()
from held h, locked l, desktop_task_attempts a
where t.id = h.number and l.id = t.id and a.id = h.attempt_id and t.status = 'leased'
  and (t.lease_expires_at > now() or a.started_at is not null)
returning t.id, h.attempt_id, t.lease_expires_at

-- name: concerns
-- What a snapshot has to look for; no row for a connection that a newer one has replaced.
select
    exists (select from monitoring_collect_tasks t where t.target_client_id = c.id and t.tenant_id = c.tenant_id
        and t.legacy_offer_expires_at > now()) as offered,
    exists (select from monitoring_collect_tasks t where t.leased_to_executor = c.id and t.tenant_id = c.tenant_id
        and t.status = 'leased') as leased
from desktop_clients c
where c.id = $1 and c.tenant_id = $2 and c.connection_epoch = $3 and c.revoked_at is null

-- name: received_held
-- Listed too: results that are safe and wait for their ingest.
select t.id, a.id as attempt_id
from unnest($1::bigint[], $2::uuid[]) as h(number, attempt_id)
join desktop_task_attempts a on a.id = h.attempt_id and a.monitor_task_id = h.number and a.client_id = $3
    and a.task_id is null and a.ended_at is null
join monitoring_collect_tasks t on t.id = a.monitor_task_id and t.status = 'received'

-- name: pending_interrupts
-- Orders that a desktop may still follow; one that lost the frame gets them again.
select 'l-' || id as id, leased_to_executor as target_client_id, interrupt_generation, updated_at
from monitoring_collect_tasks
where leased_to_executor = $1 and tenant_id = $2 and status = 'leased' and legacy_interrupt_request_id is not null
order by id

-- name: give_back
-- Out of a lease without counting an attempt: lane, priority and age stay, the question is asked in its current text. What
-- an open request bound stays bound; anybody may have the rest.
with freed as (
    update monitoring_collect_tasks t
    set status = 'pending', lease_token_hash = null, leased_to_executor = null, leased_at = null, lease_expires_at = null,
        legacy_interrupt_request_id = null, preemptions = t.preemptions + ($2 = 'preempted')::int, updated_at = now(),
        target_client_id = case when exists (select from monitoring_collect_requests r where r.id = t.collect_request_id
            and r.status in ('accepted', 'dispatching', 'running')) then t.target_client_id end,
        question_version_id = coalesce((select q.current_version_id from questions q where q.id = t.question_id),
            t.question_version_id)
    where t.id = any($1::bigint[]) and t.status = 'leased'
    returning t.id, t.collect_request_id
), closed as (
    update desktop_task_attempts a set ended_at = now(), outcome = $2, error = coalesce($3, a.error)
    from freed f where a.monitor_task_id = f.id and a.task_id is null and a.ended_at is null
    returning a.monitor_task_id, a.client_id
)
select f.id, f.collect_request_id, c.client_id from freed f left join closed c on c.monitor_task_id = f.id order by f.id

-- name: record_stop
-- Where the desktop stopped, for the weekly tuning of the timeouts.
update desktop_task_attempts
set safe_point = $2, safe_point_interval_ms = $3, phase_times = phase_times || $4::jsonb, generation = greatest(generation, $5)
where id = $1 and ended_at is null

-- name: record_stale_callback
-- A late order changes nothing, but operators see that it came.
insert into audit_events (tenant_id, actor, action, subject, detail)
values ($1, 'desktop:' || $2::uuid, 'stale_callback', $3,
    jsonb_build_object('generation', $4::bigint, 'current_generation', $5::bigint, 'reason', $6::text))

-- name: find_result_attempt
-- Only the very lease that the desktop names, in the shape of leases.sql: the business row is what knows the execution. An
-- attempt adopted by the open request satisfies it, though it began before.
select a.monitor_task_id, coalesce(a.started_at, a.leased_at) as started_at, a.ended_at, a.outcome, a.result_received_at,
    t.status as task_status, t.ingest_shard_key, true as is_current, r.created_at as request_accepted_at,
    now() as received_at, case when t.status = 'leased' then 'in_progress' else t.status end as execution_status,
    case when a.generation >= r.accepted_generation then 'collect_now' end as source
from desktop_task_attempts a
join monitoring_collect_tasks t on t.id = a.monitor_task_id
left join monitoring_collect_requests r on r.id = t.collect_request_id
    and r.status in ('accepted', 'dispatching', 'running')
where a.id = $1 and a.monitor_task_id = $2 and a.tenant_id = $3 and a.client_id = $4 and a.token_hash = $5
  and a.task_id is null

-- name: mark_received
-- From here on the lease is over and the slot free; ingest settles the task. `leased_to_executor` says whose result it is.
update monitoring_collect_tasks t
set status = 'received', lease_token_hash = null, lease_expires_at = null, legacy_interrupt_request_id = null,
    updated_at = now()
from desktop_task_attempts a
where t.id = $1 and t.status = 'leased' and a.id = $2 and a.monitor_task_id = t.id and a.task_id is null
  and a.ended_at is null
returning t.id

-- name: expired
-- Leases that ran out, by the database's clock, of attempts that had begun ($2) or not.
select t.id, a.id as attempt_id from monitoring_collect_tasks t
join desktop_task_attempts a on a.monitor_task_id = t.id and a.task_id is null and a.ended_at is null
where t.leased_to_executor is not null and t.status = 'leased' and t.lease_expires_at <= now()
  and (a.started_at is not null) = $2
order by t.id
limit $1

-- name: never_ingested
-- Received, and not ingested for so long that the message is gone.
select a.id as attempt_id from monitoring_collect_tasks t
join desktop_task_attempts a on a.monitor_task_id = t.id and a.task_id is null and a.ended_at is null
where t.leased_to_executor is not null and t.status = 'received'
  and a.result_received_at < now() - make_interval(secs => $1)
order by t.id
limit $2

-- name: unlisted
-- Of one client, not among the attempts it says it holds: begun or not. Nothing for a connection that a newer one has
-- replaced: what that one has pulled, this one cannot know.
select t.id, a.id as attempt_id, a.started_at is not null as begun
from desktop_clients c
join monitoring_collect_tasks t on t.leased_to_executor = c.id and t.tenant_id = c.tenant_id and t.status = 'leased'
join desktop_task_attempts a on a.monitor_task_id = t.id and a.task_id is null and a.ended_at is null
where c.id = $1 and c.tenant_id = $2 and c.connection_epoch = $4 and a.id <> all($3::uuid[])
order by t.id
