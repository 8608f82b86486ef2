-- name: adopt
-- Leased, or its result is on its way: it belongs to the request, keeps its desktop and batch, and an order to stop is void
-- from this generation on. Its open attempt carries the generation: that is how its answer satisfies the request, though
-- it began before.
with live as (
    select t.id, t.legacy_interrupt_request_id is not null as was_interrupted
    from monitoring_collect_tasks t
    where t.id = any($1::bigint[]) and t.status in ('leased', 'received') and t.interrupt_generation < $3
), adopted as (
    update monitoring_collect_tasks t
    set collect_request_id = $2, interrupt_generation = $3, trigger_source = 'manual', legacy_interrupt_request_id = null,
        origin_lane = case when t.dispatch_lane = 'high' then t.origin_lane else t.dispatch_lane end,
        origin_priority = case when t.dispatch_lane = 'high' then t.origin_priority else t.dispatch_priority end,
        dispatch_lane = 'high', dispatch_priority = 5000, last_dispatched_at = now(), updated_at = now()
    from live l
    where t.id = l.id
    returning t.id, t.leased_to_executor, t.dispatch_lane, l.was_interrupted
), attempts as (
    update desktop_task_attempts a set generation = $3
    from adopted d where a.monitor_task_id = d.id and a.task_id is null and a.ended_at is null
)
select 'l-' || id as id, leased_to_executor as target_client_id, dispatch_lane as lane, was_interrupted from adopted order by adopted.id

-- name: find_leased
-- Scheduled work that the client has leased, outside the request, and was not asked to stop yet, or for a request that is
-- over: its end would withdraw the advice. The newest first: the least of it is done. Where it stands nobody here knows.
select t.id, t.preemptions
from monitoring_collect_tasks t
where t.leased_to_executor = $1 and t.status = 'leased' and t.dispatch_lane in ('normal', 'normal_boosted')
  and t.collect_request_id is distinct from $2 and t.interrupt_generation < $3
  and not exists (select from monitoring_collect_requests p where p.id = t.legacy_interrupt_request_id
      and p.status in ('accepted', 'dispatching', 'running'))
order by t.leased_at desc, t.id

-- name: count_room
-- Slots in use on the client that nobody was asked to free for the request, and how many it has (null: the setting's).
select c.max_concurrent, (
        (select count(*) from desktop_tasks d where d.target_client_id = c.id and d.kind = 'monitor'
            and d.status = 'in_progress' and d.result_received_at is null and d.interrupt_request_id is distinct from $2)
        + (select count(*) from monitoring_collect_tasks t where t.leased_to_executor = c.id and t.status = 'leased')
    )::int as busy
from desktop_clients c where c.id = $1

-- name: interrupt_leased
-- The generation moves only forward; lease and slot stay as they are.
update monitoring_collect_tasks t
set interrupt_generation = $2, legacy_interrupt_request_id = $3, updated_at = now()
where t.id = any($1::bigint[]) and t.status = 'leased' and t.interrupt_generation < $2
returning 'l-' || t.id as id, t.leased_to_executor as target_client_id, t.dispatch_lane as lane, t.batch_id

-- name: hint_waiting
-- Every slot has a task that may run to its end (dispatch §16.1: "waiting for the task before").
update monitoring_collect_requests set hint = 'waiting_for_current_task' where id = $1 and hint is null

-- name: withdraw_orders
-- The request is over: who has not stopped yet goes on, with a newer generation, so that the order before it is stale. Where
-- high work of another open request waits on the desktop, the advice stands as that one's and the desktop notices nothing.
with advised as materialized (
    select t.id, (select r.id from monitoring_collect_tasks h
        join monitoring_collect_requests r on r.id = h.collect_request_id and r.id <> $1 and r.preempt
            and r.status in ('accepted', 'dispatching', 'running') and r.status_reason is distinct from 'cancelled'
        left join desktop_tasks d on d.id = h.active_task_id
        where h.target_client_id = t.leased_to_executor and h.status = 'pending' and h.dispatch_lane = 'high'
            and (d.id is null or d.status = 'queued')
        order by r.created_at, r.id
        limit 1) as heir_id
    from monitoring_collect_tasks t
    where t.legacy_interrupt_request_id = $1 and t.status = 'leased'
), passed_on as (
    update monitoring_collect_tasks t set legacy_interrupt_request_id = a.heir_id, updated_at = now()
    from advised a where t.id = a.id and a.heir_id is not null
), generation as (
    update tenants set interrupt_generation = interrupt_generation + 1
    where id = $2 and exists (select from advised where heir_id is null)
    returning interrupt_generation
)
update monitoring_collect_tasks t
set interrupt_generation = g.interrupt_generation, legacy_interrupt_request_id = null, updated_at = now()
from generation g, advised a
where t.id = a.id and a.heir_id is null
returning 'l-' || t.id as id, t.leased_to_executor as target_client_id, t.dispatch_lane as lane,
    t.interrupt_generation, 'withdrawn' as interrupt_reason
