-- name: adopt_running
-- Being executed: it belongs to the request, keeps client and batch, and any interrupt on it is withdrawn with this
-- generation. A task of another request that is already high keeps running all the same.
with live as (
    select d.id, d.monitor_task_id, d.interrupt_generation as former_generation,
        coalesce((d.control_flags ->> 'interrupt_requested')::boolean, false) as was_interrupted,
        case when (d.control_flags ->> 'interrupt_requested')::boolean then d.interrupt_request_id end as former_request_id
    from desktop_tasks d
    where d.monitor_task_id = any($1::bigint[]) and d.kind = 'monitor' and d.status in ('in_progress', 'unknown')
      and d.interrupt_generation < $3
), rows as (
    update desktop_tasks d
    set source = 'collect_now', lane = 'high', priority = 5000, interrupt_generation = $3, interrupt_reason = null,
        interrupt_request_id = null, interrupted_at = null, control_flags = '{}', updated_at = now()
    from live l where d.id = l.id
    returning d.id, d.target_client_id, d.lane, d.monitor_task_id, l.was_interrupted, l.former_request_id,
        l.former_generation
), business as (
    update monitoring_collect_tasks t
    set collect_request_id = $2, interrupt_generation = $3, trigger_source = 'manual',
        origin_lane = case when dispatch_lane = 'high' then origin_lane else dispatch_lane end,
        origin_priority = case when dispatch_lane = 'high' then origin_priority else dispatch_priority end,
        dispatch_lane = 'high', dispatch_priority = 5000, last_dispatched_at = now(), updated_at = now()
    from rows r where t.id = r.monitor_task_id
)
select id, target_client_id, lane, was_interrupted, former_request_id, former_generation from rows

-- name: take_back_queued
-- Waits on some desktop, not started: taken back so that it is dispatched anew as high work.
with aborted as (
    update desktop_tasks d
    set status = 'aborted', interrupt_reason = 'collect_now_promoted', lease_expires_at = null, finished_at = now(),
        updated_at = now()
    where d.monitor_task_id = any($1::bigint[]) and d.kind = 'monitor' and d.status = 'queued'
    returning d.id, d.monitor_task_id, d.attempt_id, d.target_client_id, d.lane
), freed as (
    update monitoring_collect_tasks t set active_task_id = null, updated_at = now()
    from aborted a where t.id = a.monitor_task_id and t.active_task_id = a.id
), closed as (
    update desktop_task_attempts x set ended_at = now(), outcome = 'cancelled'
    from aborted a where x.id = a.attempt_id and x.ended_at is null
)
select id, target_client_id, lane from aborted

-- name: move_to_high
-- Everything of the scope that is not being executed: pending again if terminal, high, bound, attempts 0, with the lane
-- it came from. A question whose text changed is asked in its current version. Age is kept unless it starts anew. What a
-- paused batch holds goes too: the click is a person's.
-- $5: platforms that the client has no login for, or that are closed; their tasks stay unbound. $6: the path of what is asked anew; what waits
-- keeps its own, and is on offer to nobody.
with locked as (
    select t.id, t.status as old_status, t.collect_request_id as old_request_id, q.current_version_id
    from monitoring_collect_tasks t join questions q on q.id = t.question_id
    where t.id = any($1::bigint[]) and (t.active_task_id is null or t.active_task_id = batch_hold(t.batch_id))
      and t.status not in ('leased', 'received') and t.interrupt_generation < $3
)
update monitoring_collect_tasks t
set status = 'pending', active_task_id = null, legacy_offer_expires_at = null,
    execution_owner = case when l.old_status = 'pending' then t.execution_owner else $6 end, collect_request_id = $2, trigger_source = 'manual',
    interrupt_generation = $3, origin_lane = case when t.dispatch_lane = 'high' then t.origin_lane else t.dispatch_lane end,
    origin_priority = case when t.dispatch_lane = 'high' then t.origin_priority else t.dispatch_priority end,
    dispatch_lane = 'high', dispatch_priority = 5000, dispatch_attempts = 0, dispatch_after = null,
    target_client_id = case when t.ai_platform_id <> all($5::text[]) then $4::uuid end,
    question_version_id = coalesce(l.current_version_id, t.question_version_id), last_error = null, skip_reason = null, finished_at = null,
    -- By the clock, not the transaction's start: answers may have come while the click waited its turn.
    last_dispatched_at = null,
    enqueued_at = case when l.old_status = 'pending' then t.enqueued_at else clock_timestamp() end,
    updated_at = now()
from locked l
where t.id = l.id
returning t.id, t.batch_id, t.target_client_id, l.old_status, l.old_request_id,
    coalesce(l.old_request_id <> $2, false) as was_taken
