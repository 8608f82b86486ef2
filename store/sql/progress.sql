-- name: lock_requests
-- Locks before counting: a count in the same statement would use a snapshot older than the lock. No key update, as
-- everywhere: who names the request in a foreign key and then changes it must not meet a lock in between.
select id, dispatched_task_count, completed_task_count, failed_task_count, first_dispatched_at, first_result_at,
    status_reason is not distinct from 'cancelled' as cancelled
from monitoring_collect_requests
where id = any($1::uuid[]) and status in ('accepted', 'dispatching', 'running')
order by id
for no key update

-- name: detach_from_cancelled
-- A cancelled request waits for what runs, and for nothing else: a task of it that came back undone (given back, failed
-- with attempts left) returns to the lane it came from and counts as returned. The caller has it locked: it was running
-- until now.
with detached as (
    update monitoring_collect_tasks t
    set dispatch_lane = coalesce(t.origin_lane, 'normal'), dispatch_priority = coalesce(t.origin_priority, 100),
        origin_lane = null, origin_priority = null, target_client_id = null, collect_request_id = null,
        legacy_offer_expires_at = null, updated_at = now(),
        last_dispatched_at = case when t.legacy_offer_expires_at is null then t.last_dispatched_at end
    from monitoring_collect_requests r
    where t.collect_request_id = any($1::uuid[]) and r.id = t.collect_request_id and t.status = 'pending'
      and t.active_task_id is null
    returning r.id as request_id
)
update monitoring_collect_requests r
set returned_task_count = r.returned_task_count + d.count
from (select request_id, count(*)::int as count from detached group by request_id) d
where r.id = d.request_id

-- name: recount_requests
-- A request has at most 500 tasks, so a recount is cheap and can't drift. A request that lost tasks to a newer
-- one counts only what it still holds, and what it gave back. Terminal once every task it holds is; superseded is written
-- by the accept. A cancelled one ends when what still ran has finished.
with counted as (
    select r.id,
        count(t.id)::int as held,
        -- A legacy task is dispatched with its lease, not with its offer.
        count(t.id) filter (where t.last_dispatched_at >= r.created_at and t.legacy_offer_expires_at is null)::int as dispatched,
        count(t.id) filter (where t.status = 'completed')::int as completed,
        count(t.id) filter (where t.status in ('failed', 'skipped', 'expired'))::int as failed,
        count(t.id) filter (where t.status = 'pending' and t.active_task_id is null)::int as waiting,
        coalesce(bool_or(d.status in ('in_progress', 'unknown') or t.status in ('leased', 'received')), false) as running
    from monitoring_collect_requests r
    left join monitoring_collect_tasks t on t.collect_request_id = r.id
    left join desktop_tasks d on d.id = t.active_task_id
    where r.id = any($1::uuid[])
    group by r.id
)
update monitoring_collect_requests r
set requested_task_count = c.held + r.returned_task_count,
    dispatched_task_count = greatest(r.dispatched_task_count, c.dispatched),
    completed_task_count = c.completed,
    failed_task_count = c.failed,
    first_dispatched_at = case when c.dispatched > 0 then coalesce(r.first_dispatched_at, now()) else r.first_dispatched_at end,
    first_result_at = case when c.completed > 0 then coalesce(r.first_result_at, now()) else r.first_result_at end,
    status = case
        when c.held = 0 and r.status_reason is distinct from 'cancelled' then r.status
        when r.status_reason = 'cancelled' and c.completed + c.failed = c.held
            then case when c.completed > 0 then 'partial' else 'failed' end
        when c.completed = c.held then 'succeeded'
        when c.completed + c.failed = c.held and c.completed > 0 then 'partial'
        when c.completed + c.failed = c.held then 'failed'
        when c.completed + c.failed > 0 or c.running or r.status = 'running' then 'running'
        when c.dispatched > 0 or r.status = 'dispatching' then 'dispatching'
        else 'accepted' end,
    finished_at = case when (c.held > 0 or r.status_reason = 'cancelled') and c.completed + c.failed = c.held then now() end,
    -- A hint says why nothing moves. That a platform is held elsewhere may last while other tasks of the request go on: it is
    -- judged by itself (hints.sql).
    hint = case when c.held > 0 and c.completed + c.failed = c.held then null
        when r.hint = 'waiting_for_platform' then r.hint
        when c.dispatched > r.dispatched_task_count or (c.running and r.status <> 'running') then null
        else r.hint end
from counted c
where r.id = c.id
returning r.id, r.tenant_id, r.dispatched_task_count, r.completed_task_count, r.failed_task_count,
    r.returned_task_count, c.held, c.waiting, r.first_dispatched_at, r.first_result_at,
    r.created_at, r.status, r.hint

-- name: count_dispatched
-- Only when a signal is due, at most 20 times a run.
select count(*)::int from monitoring_collect_tasks where batch_id = $1 and last_dispatched_at is not null

-- name: add_to_batches
-- Batches may hold 100,000 tasks: counters move by deltas under the rows' locks, which are taken in the order of ids. A
-- finished batch's are history: whoever asks its tasks again counts them elsewhere.
with locked as materialized (
    select id from scheduled_batches
    where id = any($1::bigint[]) and status not in ('completed', 'cancelled')
    order by id
    for no key update
)
update scheduled_batches b
set completed_count = b.completed_count + d.completed, failed_count = b.failed_count + d.failed,
    skipped_count = b.skipped_count + d.skipped, expired_count = b.expired_count + d.expired
from locked l
join unnest($1::bigint[], $2::int[], $3::int[], $4::int[], $5::int[]) as d(id, completed, failed, skipped, expired)
    on d.id = l.id
where b.id = l.id
returning b.id, b.workflow_id, b.tenant_id, b.expected_count,
    b.completed_count + b.failed_count + b.skipped_count + b.expired_count as settled,
    b.completed_count + b.failed_count + b.skipped_count + b.expired_count
        - (d.completed + d.failed + d.skipped + d.expired) as settled_before
