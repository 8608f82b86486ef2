-- name: read_counters
-- `running`: what a cancelled batch waits for; `held`: what waits for the end of a pause.
select b.status, b.expected_count as expected, b.completed_count as completed, b.failed_count as failed,
    b.skipped_count as skipped, b.expired_count as expired, b.skipped_slots, b.backfill_of, f.id as backfill_id,
    t.running, t.held
from scheduled_batches b
left join scheduled_batches f on f.backfill_of = b.id
cross join lateral (
    select count(*) filter (where t.active_task_id <> batch_hold($1) or t.status <> 'pending')::int as running,
        count(*) filter (where t.active_task_id = batch_hold($1))::int as held
    from monitoring_collect_tasks t
    where t.batch_id = $1 and t.status in ('pending', 'leased', 'received')
) t
where b.id = $1

-- name: pause
-- A planned one is paused before it has tasks.
update scheduled_batches set status = 'paused', paused_at = now() where id = $1 and status in ('planned', 'running')
returning id

-- name: resume
update scheduled_batches set status = 'running', paused_at = null, unpaused_at = now()
where id = $1 and status = 'paused'
returning id

-- name: cancel
update scheduled_batches
set status = 'cancelling', paused_at = null, unpaused_at = case when status = 'paused' then now() else unpaused_at end
where id = $1 and status in ('planned', 'running', 'paused')
returning id

-- name: record_order
-- Who ordered what, once for each change.
insert into audit_events (tenant_id, actor, action, subject) values ($1, $2, $3, $4)

-- name: unfinished
-- Of a batch that is in one of these states. Read once, then gone through page by page: a page that looked for its tasks
-- itself would read all that the pages before it have passed. What joins later is made or given back in the new state.
select t.id from monitoring_collect_tasks t
join scheduled_batches b on b.id = t.batch_id and b.status = any($2::text[])
where t.batch_id = $1 and t.status in ('pending', 'leased', 'received')
order by t.id

-- name: lock_tasks
-- By id. Running ones too: who is giving one back has it until he commits.
select id from monitoring_collect_tasks where id = any($1::bigint[]) order by id for no key update

-- name: lock_queued
-- After the business tasks, by id: what waits on a desktop, not started (on one client, or on any: null). A live request's
-- tasks are never touched.
select d.id from desktop_tasks d
join monitoring_collect_tasks t on t.id = d.monitor_task_id
where d.monitor_task_id = any($1::bigint[]) and d.kind = 'monitor' and d.status = 'queued'
  and ($2::uuid is null or d.target_client_id = $2)
  and not exists (select from monitoring_collect_requests r where r.id = t.collect_request_id
      and r.status in ('accepted', 'dispatching', 'running'))
order by d.id
for no key update of d

-- name: hold_waiting
-- Held by the batch: out of every index of the claim, with lane, priority and age as they are. Only while it is paused: a
-- page that comes after the resume holds nothing.
update monitoring_collect_tasks t
set active_task_id = batch_hold(b.id), updated_at = now()
from scheduled_batches b
where b.id = $1 and b.status = 'paused' and t.id = any($2::bigint[]) and t.batch_id = b.id
  and t.status = 'pending' and t.active_task_id is null
  and not exists (select from monitoring_collect_requests r where r.id = t.collect_request_id
      and r.status in ('accepted', 'dispatching', 'running'))
returning t.id

-- name: let_go
-- In the question's text as it is now (§1.1). `is not distinct from` keeps to the page's ids: an index on what holds a task
-- finds the whole batch under its hold.
update monitoring_collect_tasks t
set active_task_id = null, updated_at = now(),
    question_version_id = coalesce((select q.current_version_id from questions q where q.id = t.question_id),
        t.question_version_id)
from scheduled_batches b
where b.id = $1 and b.status <> 'paused' and t.id = any($2::bigint[]) and t.batch_id = b.id
  and t.status = 'pending' and t.active_task_id is not distinct from batch_hold($1)
returning t.id

-- name: settle_waiting
-- Held ones too.
update monitoring_collect_tasks t
set status = $3, skip_reason = $4, active_task_id = null, legacy_offer_expires_at = null, finished_at = now(), updated_at = now()
where t.id = any($2::bigint[]) and t.batch_id = $1 and t.status = 'pending'
  and (t.active_task_id is null or t.active_task_id = batch_hold($1))
  and not exists (select from monitoring_collect_requests r where r.id = t.collect_request_id
      and r.status in ('accepted', 'dispatching', 'running'))
returning t.id

-- name: waiting_on_client
-- What of the batch waits on one client: bound to it, or in its queue. As many rows as a queue has room for.
select t.id from monitoring_collect_tasks t
where t.target_client_id = $2 and t.status = 'pending' and t.batch_id = $1
union
select t.id from desktop_tasks d
join monitoring_collect_tasks t on t.id = d.monitor_task_id and t.batch_id = $1
where d.target_client_id = $2 and d.kind = 'monitor' and d.status = 'queued'
order by 1

-- name: unbind_client
-- Whoever is free may have them. High work is its request's.
update monitoring_collect_tasks set target_client_id = null, legacy_offer_expires_at = null, updated_at = now(),
    last_dispatched_at = case when legacy_offer_expires_at is null then last_dispatched_at end
where id = any($2::bigint[]) and target_client_id = $1 and status = 'pending' and active_task_id is null
  and dispatch_lane <> 'high'
returning id

-- name: finish_batch
-- Only when everything is settled: a task that collect-now reopened meanwhile keeps the batch open. `leaves_work`: expired
-- tasks for a backfill.
with over as (
    select b.id, b.status = 'paused' as was_paused from scheduled_batches b
    where b.id = $1 and b.status in ('running', 'paused', 'cancelling')
      and b.completed_count + b.failed_count + b.skipped_count + b.expired_count >= b.expected_count
    for no key update of b
)
update scheduled_batches b
set status = case when b.status = 'cancelling' then 'cancelled' else 'completed' end, finished_at = now(), paused_at = null
from over o
where b.id = o.id
returning b.id, b.tenant_id, b.brand_id, b.business_date, b.slot, b.cut_off_at, o.was_paused,
    (select p.time_zone from monitoring_plans p where p.id = b.plan_id) as time_zone,
    b.status = 'completed' and b.expired_count > 0 and b.backfill_of is null as leaves_work

-- name: plan_backfill
-- Of a batch that was paused: paused, before it has begun. Nothing to do when its own end has passed already.
insert into scheduled_batches (tenant_id, brand_id, plan_id, business_date, slot, run_mode, collector_type, workflow_id,
    status, paused_at, scheduled_for, cut_off_at, backfill_of)
select tenant_id, brand_id, plan_id, business_date, $2, run_mode, collector_type, $3,
    case when $5 then 'paused' else 'planned' end, case when $5 then now() end, now(), $4, id
from scheduled_batches where id = $1 and $4 > now()
on conflict do nothing

-- name: mark_projection
-- Fewer answers are awaited than before.
insert into projection_rebuild_queue as q (tenant_id, brand_id, business_date)
select tenant_id, brand_id, business_date from scheduled_batches where id = $1
on conflict (tenant_id, brand_id, business_date) do update set version = q.version + 1, not_before = now()
