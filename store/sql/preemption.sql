-- name: lock_business_tasks
-- One statement for all sets, the client's legacy offers and leases among them, so that everybody takes business tasks in
-- the same order. One array, because an `or` with a subquery would read the whole table.
select id, execution_owner = 'legacy' as legacy from monitoring_collect_tasks
where id = any($1::bigint[]
    || array(select monitor_task_id from desktop_tasks
        where target_client_id = $2::uuid and kind = 'monitor' and status in ('queued', 'in_progress', 'unknown'))
    || array(select id from monitoring_collect_tasks
        where target_client_id = $2::uuid and legacy_offer_expires_at is not null)
    || array(select id from monitoring_collect_tasks where leased_to_executor = $2::uuid))
order by id
for no key update

-- name: lock_execution_tasks
-- After the business tasks, by id.
select id from desktop_tasks
where kind = 'monitor' and status in ('queued', 'in_progress', 'unknown')
  and (monitor_task_id = any($1::bigint[]) or target_client_id = $2::uuid)
order by id
for no key update

-- name: abort_queued
-- Back to pending: lane and age kept, no attempt counted (§1.5 step 6). Other requests' high tasks stay.
with aborted as (
    update desktop_tasks d
    set status = 'aborted', interrupt_reason = 'collect_now_preempt', lease_expires_at = null, finished_at = now(),
        updated_at = now()
    where d.target_client_id = $1 and d.kind = 'monitor' and d.status = 'queued'
      and d.lane in ('normal', 'normal_boosted', 'retry')
      and not exists (select from monitoring_collect_tasks t where t.id = d.monitor_task_id and t.collect_request_id = $2)
    returning d.id, d.monitor_task_id, d.attempt_id, d.target_client_id, d.lane
), freed as (
    update monitoring_collect_tasks t set active_task_id = null, updated_at = now()
    from aborted a where t.id = a.monitor_task_id and t.active_task_id = a.id
    returning t.id, t.batch_id
), closed as (
    update desktop_task_attempts x set ended_at = now(), outcome = 'cancelled'
    from aborted a where x.id = a.attempt_id and x.ended_at is null
)
select a.id, a.target_client_id, a.lane, f.batch_id from aborted a left join freed f on f.id = a.monitor_task_id

-- name: lock_requests
-- By id, before any of them counts: this request, and those whose interrupts on the client it may take over.
select id from monitoring_collect_requests
where id = any($1::uuid || array(select interrupt_request_id from desktop_tasks
    where target_client_id = $2 and kind = 'monitor' and status = 'in_progress' and interrupt_request_id is not null))
order by id
for no key update

-- name: find_running
-- Who may be asked to stop: scheduled, running, without a received result, not part of the request. One that an open
-- request has asked already stays that one's victim: its slot is promised, and one interrupt settles once. `busy`: slots in
-- use on the client that no interrupt is freeing for us. `wanted`: the request has work for its platform here.
select d.id, d.phase, d.started_at, d.ai_platform_id, t.preemptions, c.max_concurrent,
    exists (select from monitoring_collect_tasks h
        where h.collect_request_id = $2 and h.target_client_id = $1 and h.ai_platform_id = d.ai_platform_id
          and h.status = 'pending' and h.active_task_id is null) as wanted,
    (select count(*)::int from desktop_tasks b where b.target_client_id = $1 and b.kind = 'monitor'
        and b.status = 'in_progress' and b.result_received_at is null
        and b.interrupt_request_id is distinct from $2)
    + (select count(*)::int from monitoring_collect_tasks l where l.leased_to_executor = $1 and l.status = 'leased') as busy
from desktop_tasks d
join monitoring_collect_tasks t on t.id = d.monitor_task_id
join desktop_clients c on c.id = d.target_client_id
where d.target_client_id = $1 and d.kind = 'monitor' and d.status = 'in_progress' and d.source = 'daily_schedule'
  and d.result_received_at is null and d.interrupt_generation < $3
  and t.collect_request_id is distinct from $2
  and not (coalesce((d.control_flags ->> 'interrupt_requested')::boolean, false) and exists (
    select from monitoring_collect_requests p
    where p.id = d.interrupt_request_id and p.status in ('accepted', 'dispatching', 'running')))
order by d.id

-- name: interrupt_running
-- The generation moves only forward; the slot counts as free for this request alone from now on. `former_request_id`: a
-- request that is over and had asked it before.
with victims as (
    select d.id, d.interrupt_generation as former_generation,
        case when (d.control_flags ->> 'interrupt_requested')::boolean then d.interrupt_request_id end as former_request_id
    from desktop_tasks d
    where d.id = any($1::uuid[]) and d.status = 'in_progress' and d.result_received_at is null
      and d.interrupt_generation < $2
)
update desktop_tasks d
set interrupt_generation = $2, interrupt_reason = 'collect_now_preempt', interrupt_request_id = $3, interrupted_at = now(),
    control_flags = jsonb_build_object('interrupt_requested', true, 'interrupt_generation', $2::bigint), updated_at = now()
from victims v, monitoring_collect_tasks t
where d.id = v.id and t.id = d.monitor_task_id
returning d.id, d.target_client_id, d.lane, t.batch_id, v.former_request_id, v.former_generation

-- name: record_yield
-- The batch's yield at this generation; repeated for the same generation it only counts more tasks.
with recorded as (
    insert into batch_yields as y (batch_id, client_id, tenant_id, generation, request_id, task_count)
    values ($1, $2, $3, $4, $5, $6)
    on conflict (batch_id, client_id, generation) do update set task_count = y.task_count + excluded.task_count
)
select workflow_id from scheduled_batches where id = $1
