-- name: claim_due_plans
-- SKIP LOCKED: any number of scans may run at once.
select id, tenant_id, brand_id, run_mode, collector_type, cadence_kind, cadence, time_zone, business_date_rule, next_run_at
from monitoring_plans
where active and next_run_at <= now()
order by next_run_at
limit $1
for update skip locked

-- name: plan_batch
insert into scheduled_batches (tenant_id, brand_id, plan_id, business_date, slot, run_mode, collector_type, workflow_id,
    scheduled_for, cut_off_at, skipped_slots)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
on conflict do nothing

-- name: move_plan
update monitoring_plans set next_run_at = $2, updated_at = now() where id = $1

-- name: find_planned
-- A page after the given id: a batch that can't be started must not hide the newer ones.
select b.id, b.tenant_id, b.brand_id, b.plan_id, b.business_date, b.slot, b.cut_off_at, b.skipped_slots,
    coalesce((select max(s.interrupt_hard_timeout_ms) from platform_settings s join monitoring_plans p on p.id = b.plan_id
              where s.platform_id = any(p.platforms)), 45000) as hard_timeout_ms
from scheduled_batches b where b.status = 'planned' and b.id > $1 order by b.id limit $2

-- name: read_batch
select tenant_id, brand_id, business_date from scheduled_batches where id = $1

-- name: lock_batches
-- By id, before the recount and in a statement of its own: the count must see what committed before the locks were ours.
select id from scheduled_batches where id = any($1::bigint[]) order by id for no key update

-- name: read_slice
-- A slice of the ordered (question, platform) list.
select q.id as question_id, p.id as platform
from scheduled_batches b
join monitoring_plans m on m.id = b.plan_id
join questions q on q.tenant_id = b.tenant_id and q.brand_id = b.brand_id and q.active and q.current_version_id is not null
    and (m.question_ids is null or q.id = any(m.question_ids))
join ai_platforms p on p.id = any(m.platforms) and p.enabled
    and case b.run_mode when 'api_search_grounded' then p.supports_search_grounded else p.supports_standard end
    and (q.only_platforms is null or p.id = any(q.only_platforms))
where b.id = $1
order by q.id, p.id
offset $2 limit $3

-- name: lock_takeable
-- Tasks of the slice that exist without a batch (a collect-now made them), or that an earlier batch, now over, left
-- unanswered. What a batch completed or failed stays there. By id: the insert would lock them in another order.
select t.id, t.batch_id as former_id
from scheduled_batches b
cross join unnest($2::bigint[], $3::text[]) as s(question_id, platform)
join monitoring_collect_tasks t on t.tenant_id = b.tenant_id and t.brand_id = b.brand_id and t.question_id = s.question_id
    and t.ai_platform_id = s.platform and t.collector_type = b.collector_type and t.run_mode = b.run_mode
    and t.business_date = b.business_date
left join scheduled_batches f on f.id = t.batch_id
where b.id = $1 and (t.batch_id is null
    or (t.batch_id <> b.id and t.status in ('skipped', 'expired') and f.status in ('completed', 'cancelling', 'cancelled')))
order by t.id
for no key update of t

-- name: take_unowned
-- As they are: a request's task stays that one's, an answered one counts as answered.
update monitoring_collect_tasks set batch_id = $1, updated_at = now() where id = any($2::bigint[])

-- name: take_over
-- Asked from the beginning, in the current text.
update monitoring_collect_tasks t
set batch_id = $1, status = 'pending', question_version_id = coalesce(q.current_version_id, t.question_version_id),
    dispatch_lane = 'normal', dispatch_priority = 100, origin_lane = null, origin_priority = null, dispatch_attempts = 0,
    dispatch_after = null, collect_request_id = null, target_client_id = null, last_dispatched_at = null,
    last_error = null, skip_reason = null, finished_at = null, enqueued_at = now(), updated_at = now()
from questions q
where t.id = any($2::bigint[]) and q.id = t.question_id

-- name: materialise
-- Inserted in the order everybody inserts in; what exists stays as it is. `created` counts new rows.
with written as (
    insert into monitoring_collect_tasks (tenant_id, workspace_id, brand_id, question_id, question_version_id, keyword_id,
        ai_platform_id, collector_type, run_mode, business_date, batch_id, trigger_source, ingest_shard_key)
    select b.tenant_id, br.workspace_id, b.brand_id, q.id, q.current_version_id, q.keyword_id, s.platform, b.collector_type,
        b.run_mode, b.business_date, b.id, 'automatic', $4
    from scheduled_batches b
    join brands br on br.id = b.brand_id
    cross join unnest($2::bigint[], $3::text[]) as s(question_id, platform)
    join questions q on q.tenant_id = b.tenant_id and q.id = s.question_id
    where b.id = $1
    order by q.id, s.platform
    on conflict on constraint collect_tasks_business_key do nothing
    returning id
)
select count(*)::int from written

-- name: recount_batches
-- Under the batches' locks; afterwards counters move by deltas. $2: the one whose tasks are being created.
update scheduled_batches b
set expected_count = c.expected, completed_count = c.completed, failed_count = c.failed, skipped_count = c.skipped,
    expired_count = c.expired, status = case when b.id = $2 and b.status = 'planned' then 'running' else b.status end,
    started_at = case when b.id = $2 then coalesce(b.started_at, now()) else b.started_at end
from unnest($1::bigint[]) as u(id),
    lateral (
        select count(*)::int as expected,
            count(*) filter (where t.status = 'completed')::int as completed,
            count(*) filter (where t.status = 'failed')::int as failed,
            count(*) filter (where t.status = 'skipped')::int as skipped,
            count(*) filter (where t.status = 'expired')::int as expired
        from monitoring_collect_tasks t where t.batch_id = u.id
    ) c
where b.id = u.id
returning b.id, b.expected_count

-- name: mark_projection
-- Expected counts are shown as soon as they are known: a day without answers is missing, not empty.
insert into projection_rebuild_queue as q (tenant_id, brand_id, business_date)
select tenant_id, brand_id, business_date from scheduled_batches where id = $1
on conflict (tenant_id, brand_id, business_date) do update set version = q.version + 1, not_before = now()

-- name: read_counters
select b.status, b.expected_count, b.completed_count, b.failed_count, b.skipped_count, b.expired_count,
    (select count(*)::int from monitoring_collect_tasks t where t.batch_id = b.id and t.status = 'pending'
        and t.active_task_id is not null) as running
from scheduled_batches b where b.id = $1

-- name: set_status
update scheduled_batches set status = $2 where id = $1 and status in ('planned', 'running', 'paused')

-- name: lock_waiting
select id from monitoring_collect_tasks where batch_id = $1 and status = 'pending' order by id for no key update

-- name: lock_queued
-- After the business tasks, by id.
select d.id from desktop_tasks d
join monitoring_collect_tasks t on t.active_task_id = d.id
where t.batch_id = $1 and t.status = 'pending' and d.status = 'queued'
order by d.id
for no key update of d

-- name: abort_queued
-- On one client, or on all (null); a live request's tasks are never touched.
with aborted as (
    update desktop_tasks d
    set status = 'aborted', interrupt_reason = 'batch_released', lease_expires_at = null, finished_at = now(),
        updated_at = now()
    from monitoring_collect_tasks t
    where t.batch_id = $1 and t.active_task_id = d.id and d.status = 'queued' and ($2::uuid is null or d.target_client_id = $2)
      and not exists (select from monitoring_collect_requests r where r.id = t.collect_request_id
          and r.status in ('accepted', 'dispatching', 'running'))
    returning d.id, d.attempt_id, d.monitor_task_id, d.target_client_id, d.lane, d.interrupt_generation
), freed as (
    update monitoring_collect_tasks t set active_task_id = null, updated_at = now()
    from aborted a where t.id = a.monitor_task_id
), closed as (
    update desktop_task_attempts x set ended_at = now(), outcome = 'cancelled'
    from aborted a where x.id = a.attempt_id and x.ended_at is null
)
select id, target_client_id, lane, interrupt_generation from aborted

-- name: settle_waiting
with settled as (
    update monitoring_collect_tasks t
    set status = $2, skip_reason = $3, finished_at = now(), updated_at = now()
    where t.batch_id = $1 and t.status = 'pending' and t.active_task_id is null
      and not exists (select from monitoring_collect_requests r where r.id = t.collect_request_id
          and r.status in ('accepted', 'dispatching', 'running'))
    returning id
)
select count(*)::int from settled

-- name: unbind_client
with unbound as (
    update monitoring_collect_tasks set target_client_id = null, updated_at = now()
    where batch_id = $1 and target_client_id = $2 and status = 'pending' and active_task_id is null
      and dispatch_lane <> 'high'
    returning id
)
select count(*)::int from unbound

-- name: finish_batch
-- Only when everything is settled: a task that collect-now reopened meanwhile keeps the batch open.
update scheduled_batches
set status = case when status = 'cancelling' then 'cancelled' else 'completed' end, finished_at = now()
where id = $1 and status in ('running', 'paused', 'cancelling')
  and completed_count + failed_count + skipped_count + expired_count >= expected_count
returning id
