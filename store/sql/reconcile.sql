-- name: find_held_by_nothing
-- Held by an execution task that is missing, another's or over, for longer than any transaction lasts; or by the pause of a
-- batch that is over for longer than a resume takes to let go of 100,000 tasks, page by page. Read from what is held at all,
-- so the backlog does not matter. A pause's hold is no uuid of version 7 but the batch's id (0005): of those only the
-- distinct ones are looked at, not the 100,000 tasks that one may hold.
with recursive holds as (
    (select active_task_id as hold from monitoring_collect_tasks
     where active_task_id is not null and active_task_id < '00000000-0000-0001-0000-000000000000'
     order by active_task_id limit 1)
    union all
    select (select t.active_task_id from monitoring_collect_tasks t
            where t.active_task_id > h.hold and t.active_task_id < '00000000-0000-0001-0000-000000000000'
            order by t.active_task_id limit 1)
    from holds h where h.hold is not null
), left_over as (
    select array_agg(hold) as ids from holds
    where hold is not null and (
        select b.status = 'paused' or coalesce(b.unpaused_at > now() - interval '5 minutes', false) from scheduled_batches b
        where b.id = ('x' || right(replace(hold::text, '-', ''), 16))::bit(64)::bigint) is not true
)
select id from (
    select t.id from monitoring_collect_tasks t
    left join desktop_tasks d on d.id = t.active_task_id and d.monitor_task_id = t.id
    where t.active_task_id >= '00000000-0000-0001-0000-000000000000' and t.updated_at < now() - make_interval(secs => $1)
      and (d.id is null
        or (d.status in ('succeeded', 'failed', 'aborted') and d.updated_at < now() - make_interval(secs => $1)))
    union all
    select t.id from monitoring_collect_tasks t
    where t.active_task_id = any((select ids from left_over)::uuid[])
      and t.updated_at < now() - make_interval(secs => $1)
) found
order by id
limit $2

-- name: lock_tasks
-- By id, as everywhere; what was found is judged again under the locks.
select id from monitoring_collect_tasks where id = any($1::bigint[]) order by id for no key update

-- name: free_tasks
-- Waits again, or is as finished as its status says; asked in its question's current text (§1.1).
with held as (
    select t.id, t.active_task_id as execution_id, q.current_version_id
    from monitoring_collect_tasks t
    join questions q on q.id = t.question_id
    left join desktop_tasks d on d.id = t.active_task_id and d.monitor_task_id = t.id
    left join scheduled_batches b on b.id = t.batch_id and b.status = 'paused'
    where t.id = any($1::bigint[]) and t.active_task_id is not null
      and (b.id is null or t.active_task_id <> batch_hold(b.id))
      and (d.id is null or d.status in ('succeeded', 'failed', 'aborted'))
)
update monitoring_collect_tasks t
set active_task_id = null, updated_at = now(), question_version_id = case when t.status = 'pending'
    then coalesce(h.current_version_id, t.question_version_id) else t.question_version_id end
from held h
where t.id = h.id
returning t.id, t.tenant_id, t.collect_request_id, h.execution_id

-- name: find_legacy_zombies
-- Leases of the legacy path that ran out ($1 seconds ago for a result that never came to ingest): from the leases that there
-- are (0003). The sweeper ends those whose attempt is open; without one nobody would.
select id, tenant_id from monitoring_collect_tasks
where leased_to_executor is not null and execution_owner = 'legacy'
  and ((status = 'leased' and lease_expires_at <= now())
    or (status = 'received' and updated_at < now() - make_interval(secs => $1)))
order by id
limit $2

-- name: clear_zombies
-- No attempt is open: nobody can send a result for it. Pending again, and anybody's unless an open request bound it.
update monitoring_collect_tasks t
set status = 'pending', lease_token_hash = null, leased_to_executor = null, leased_at = null, lease_expires_at = null,
    legacy_interrupt_request_id = null, updated_at = now(),
    target_client_id = case when exists (select from monitoring_collect_requests r where r.id = t.collect_request_id
        and r.status in ('accepted', 'dispatching', 'running')) then t.target_client_id end
where t.id = any($1::bigint[]) and t.status in ('leased', 'received')
  and not exists (select from desktop_task_attempts a where a.monitor_task_id = t.id and a.task_id is null
    and a.ended_at is null)
returning t.id, t.collect_request_id

-- name: find_blocked
-- A live execution task that its waiting business task does not know of: every attempt to dispatch it meets the unique
-- index. In one transaction both are written, so a minute says that it will stay.
select d.id from desktop_tasks d
join monitoring_collect_tasks t on t.id = d.monitor_task_id
where d.kind = 'monitor' and d.status in ('queued', 'in_progress', 'unknown')
  and t.status = 'pending' and t.active_task_id is null and t.execution_owner = 'desktop_tasks'
  and t.updated_at < now() - make_interval(secs => $1) and d.created_at < now() - make_interval(secs => $1)
order by d.id
limit $2

-- name: read_blocked
-- Again, under the locks.
select d.id, d.status, t.id as task_id, t.tenant_id, t.collect_request_id from desktop_tasks d
join monitoring_collect_tasks t on t.id = d.monitor_task_id
where d.id = any($1::uuid[]) and d.status in ('queued', 'in_progress', 'unknown') and t.status = 'pending'
  and t.active_task_id is null
order by d.id

-- name: adopt_executions
-- A desktop may be running it: the business task waits for it, as it should have from the start.
update monitoring_collect_tasks t
set active_task_id = d.id, updated_at = now()
from desktop_tasks d
where d.id = any($1::uuid[]) and t.id = d.monitor_task_id and t.active_task_id is null

-- name: find_orphans
-- Live execution tasks that no business task wants: it is finished, or belongs to the other path. Dead when nobody can be
-- running it: not started, or past its lease. What a desktop may be running is reported, once.
select d.id, d.tenant_id, d.status = 'queued' or d.lease_expires_at is null or d.lease_expires_at <= now() as dead
from desktop_tasks d
join monitoring_collect_tasks t on t.id = d.monitor_task_id
where d.kind = 'monitor' and d.status in ('queued', 'in_progress', 'unknown') and d.result_received_at is null
  and (t.status in ('completed', 'failed', 'skipped', 'expired') or t.execution_owner = 'legacy')
order by d.id
limit $1

-- name: report_orphans
-- Once each: the row remembers.
update desktop_tasks set control_flags = control_flags || '{"orphan_reported": true}'
where id = any($1::uuid[]) and not control_flags ? 'orphan_reported'
returning id, tenant_id

-- name: find_strays
-- High, or bound to a client, for no open request: its request ended without letting go of it. From the two small indexes
-- of bound work and of high work to bind. Legacy work that is on offer is the offer's.
select t.id from (
    select id, collect_request_id, legacy_offer_expires_at, dispatch_lane, active_task_id
    from monitoring_collect_tasks
    where status = 'pending' and active_task_id is null and target_client_id is null and dispatch_lane = 'high'
    union all
    select id, collect_request_id, legacy_offer_expires_at, dispatch_lane, active_task_id
    from monitoring_collect_tasks
    where status = 'pending' and target_client_id is not null
) t
left join monitoring_collect_requests r on r.id = t.collect_request_id
    and r.status in ('accepted', 'dispatching', 'running')
where r.id is null and (t.dispatch_lane = 'high' or (t.active_task_id is null and t.legacy_offer_expires_at is null))
  and (t.legacy_offer_expires_at is null or t.legacy_offer_expires_at <= now())
order by t.id
limit $1

-- name: return_strays
-- Back to the lane it came from, with its age; what runs finishes for itself.
with stray as (
    select t.id, t.target_client_id, t.collect_request_id from monitoring_collect_tasks t
    left join monitoring_collect_requests r on r.id = t.collect_request_id
        and r.status in ('accepted', 'dispatching', 'running')
    where t.id = any($1::bigint[]) and t.status = 'pending' and r.id is null
      and (t.dispatch_lane = 'high' or t.target_client_id is not null)
      and (t.legacy_offer_expires_at is null or t.legacy_offer_expires_at <= now())
)
update monitoring_collect_tasks t
set dispatch_lane = case when t.dispatch_lane = 'high' then coalesce(t.origin_lane, 'normal') else t.dispatch_lane end,
    dispatch_priority = case when t.dispatch_lane = 'high' then coalesce(t.origin_priority, 100)
        else t.dispatch_priority end,
    origin_lane = null, origin_priority = null, target_client_id = null, collect_request_id = null, updated_at = now()
from stray s
where t.id = s.id
returning t.id, t.tenant_id, s.target_client_id as client_id, s.collect_request_id as request_id

-- name: count_returned
-- Of the ended requests that the strays were of: every task they asked for is completed, failed or returned (by id, since
-- these are the only rows that this transaction locks of them).
update monitoring_collect_requests r
set returned_task_count = r.requested_task_count - r.completed_task_count - r.failed_task_count
from (select id from monitoring_collect_requests where id = any($1::uuid[]) order by id for no key update) l
where r.id = l.id and r.status not in ('accepted', 'dispatching', 'running')
  and r.returned_task_count <> r.requested_task_count - r.completed_task_count - r.failed_task_count

-- name: find_stale_interrupts
-- Whoever is asked to stop for a request that is over; from what lives, which is as much as the fleet has room for, on either
-- path.
select a.request_id, a.tenant_id from (
    select interrupt_request_id as request_id, tenant_id from desktop_tasks
    where kind = 'monitor' and status in ('in_progress', 'unknown') and interrupt_request_id is not null
      and control_flags ->> 'interrupt_requested' = 'true'
    union
    select legacy_interrupt_request_id, tenant_id from monitoring_collect_tasks
    where legacy_interrupt_request_id is not null and status = 'leased'
) a
left join monitoring_collect_requests r on r.id = a.request_id and r.status in ('accepted', 'dispatching', 'running')
where r.id is null
group by 1, 2
order by 1
limit $1

-- name: find_miscounted_requests
-- Open requests (at most two a tenant, of at most 500 tasks) whose counters or status a recount would change.
select r.id, r.tenant_id from monitoring_collect_requests r
cross join lateral (
    select count(*)::int as held, count(*) filter (where t.status = 'completed')::int as completed,
        count(*) filter (where t.status in ('failed', 'skipped', 'expired'))::int as failed
    from monitoring_collect_tasks t where t.collect_request_id = r.id
) c
where r.status in ('accepted', 'dispatching', 'running') and ($1::uuid[] is null or r.id = any($1))
  and ((r.requested_task_count, r.completed_task_count, r.failed_task_count)
        is distinct from (c.held + r.returned_task_count, c.completed, c.failed)
    or (c.completed + c.failed = c.held and (c.held > 0 or r.status_reason = 'cancelled')))
order by r.id
limit $2

-- name: lock_tasks_of_requests
-- Business tasks first: the recount of a cancelled request lets go of some.
select id from monitoring_collect_tasks where collect_request_id = any($1::uuid[]) order by id for no key update

-- name: find_miscounted_batches
-- Open batches; by the index on batch and status. A finished one's numbers are history.
select b.id from scheduled_batches b
cross join lateral (
    select count(*)::int as expected, count(*) filter (where t.status = 'completed')::int as completed,
        count(*) filter (where t.status = 'failed')::int as failed,
        count(*) filter (where t.status = 'skipped')::int as skipped,
        count(*) filter (where t.status = 'expired')::int as expired
    from monitoring_collect_tasks t where t.batch_id = b.id
) c
where b.status in ('running', 'paused', 'cancelling') and ($1::bigint[] is null or b.id = any($1))
  and (b.expected_count, b.completed_count, b.failed_count, b.skipped_count, b.expired_count)
    is distinct from (c.expected, c.completed, c.failed, c.skipped, c.expired)
order by b.id
limit $2

-- name: lock_batches
-- In a statement of its own before the recount: it must see what committed before the locks were ours.
select id from scheduled_batches where id = any($1::bigint[]) order by id for no key update

-- name: recount_batches
update scheduled_batches b
set expected_count = c.expected, completed_count = c.completed, failed_count = c.failed, skipped_count = c.skipped,
    expired_count = c.expired
from unnest($1::bigint[]) as u(id),
    lateral (
        select count(*)::int as expected, count(*) filter (where t.status = 'completed')::int as completed,
            count(*) filter (where t.status = 'failed')::int as failed,
            count(*) filter (where t.status = 'skipped')::int as skipped,
            count(*) filter (where t.status = 'expired')::int as expired,
            count(*) filter (where t.last_dispatched_at is not null)::int as dispatched
        from monitoring_collect_tasks t where t.batch_id = u.id
    ) c
where b.id = u.id
returning b.id, b.tenant_id, b.workflow_id, c.expected, c.dispatched,
    c.completed + c.failed + c.skipped + c.expired as settled

-- name: count_undelivered
-- Effects that no pump has taken for so long: one is away, or their receiver is.
select count(*)::int from outbox
where delivered_at is null and created_at < now() - make_interval(secs => $1)

-- name: record_fixes
-- What was mended is told in the audit, one row each.
insert into audit_events (tenant_id, actor, action, subject, detail)
select u.tenant_id, 'reconcile', $1, u.subject, u.detail
from unnest($2::bigint[], $3::text[], $4::jsonb[]) as u(tenant_id, subject, detail)

-- name: find_open_requests
-- A page by id of the requests that a workflow should be following. The accept's update-with-start has the workflow before
-- the row, so a young row is as good as an old one.
select id, tenant_id, brand_id, status_reason is not distinct from 'cancelled' as cancelled, hard_deadline <= now() as overdue
from monitoring_collect_requests
where status in ('accepted', 'dispatching', 'running') and id > $1
order by id
limit $2

-- name: is_request_open
-- Asked again after Temporal has answered: the two may have ended together.
select exists (select from monitoring_collect_requests where id = $1 and status in ('accepted', 'dispatching', 'running'))

-- name: find_open_batches
-- A page by id of the batches that a workflow should be following; a planned one is the next scan's for two minutes, as is a
-- backfill that was planned paused.
select b.id, b.tenant_id, b.brand_id, b.plan_id, b.business_date, b.slot, b.cut_off_at, b.workflow_id,
    b.status = 'cancelling' as cancelled,
    coalesce((select max(s.interrupt_hard_timeout_ms) from platform_settings s join monitoring_plans p on p.id = b.plan_id
              where s.platform_id = any(p.platforms)), 45000) as hard_timeout_ms
from scheduled_batches b
where b.status in ('planned', 'running', 'paused', 'cancelling') and b.id > $1
  and (b.status not in ('planned', 'paused') or b.status = 'paused' and b.started_at is not null
    or b.created_at < now() - interval '2 minutes')
order by b.id
limit $2

-- name: is_batch_open
select exists (select from scheduled_batches where id = $1 and status in ('planned', 'running', 'paused', 'cancelling'))
