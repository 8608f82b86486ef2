-- name: read_batch
-- Under the tenant's lock, which a pause and a cancel take too: what is created here is created in the state read here.
select tenant_id, brand_id, business_date, backfill_of, expected_count,
    status in ('planned', 'running', 'paused') as takes_tasks
from scheduled_batches where id = $1

-- name: lock_batches
-- By id, before the recount and in a statement of its own: the count must see what committed before the locks were ours.
select id from scheduled_batches where id = any($1::bigint[]) order by id for no key update

-- name: read_slice
-- A slice of the list of (question, platform), ordered, after the cursor: a question that is switched off meanwhile moves
-- nothing. $4: by position, of a run that has no cursor yet.
select q.id as question_id, p.id as platform
from scheduled_batches b
join monitoring_plans m on m.id = b.plan_id
join questions q on q.tenant_id = b.tenant_id and q.brand_id = b.brand_id and q.active and q.current_version_id is not null
    and q.id >= coalesce($2::bigint, 0) and (m.question_ids is null or q.id = any(m.question_ids))
join ai_platforms p on p.id = any(m.platforms) and p.enabled
    and case b.run_mode when 'api_search_grounded' then p.supports_search_grounded else p.supports_standard end
    and (q.only_platforms is null or p.id = any(q.only_platforms))
where b.id = $1 and ($2 is null or (q.id, p.id) > ($2, $3::text))
order by q.id, p.id
offset $4 limit $5

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

-- name: lock_expired
-- What the cut-off of a batch expired, and is wanted still. A collect-now that has asked for one since keeps it.
select t.id from monitoring_collect_tasks t
join questions q on q.id = t.question_id and q.active
join ai_platforms p on p.id = t.ai_platform_id and p.enabled
where t.batch_id = $1 and t.status = 'expired'
order by t.id
limit $2
for no key update of t

-- name: take_unowned
-- As they are: a request's task stays that one's, an answered one counts as answered. What only waits, waits as the others
-- of the batch do.
update monitoring_collect_tasks t
set batch_id = b.id, updated_at = now(),
    active_task_id = case
        when b.status = 'paused' and t.status = 'pending' and t.active_task_id is null
            and not exists (select from monitoring_collect_requests r where r.id = t.collect_request_id
                and r.status in ('accepted', 'dispatching', 'running'))
        then batch_hold(b.id) else t.active_task_id end
from scheduled_batches b
where b.id = $1 and t.id = any($2::bigint[])

-- name: take_over
-- Asked from the beginning, in the current text, in the lane, at the priority and on the path given; held while the batch is
-- paused.
update monitoring_collect_tasks t
set batch_id = b.id, status = 'pending', question_version_id = coalesce(q.current_version_id, t.question_version_id),
    dispatch_lane = $3, dispatch_priority = $4, origin_lane = null, origin_priority = null, dispatch_attempts = 0,
    dispatch_after = null, collect_request_id = null, target_client_id = null, last_dispatched_at = null,
    active_task_id = case when b.status = 'paused' then batch_hold(b.id) end,
    last_error = null, skip_reason = null, finished_at = null, execution_owner = $5,
    enqueued_at = clock_timestamp(), updated_at = now()
from questions q, scheduled_batches b
where t.id = any($2::bigint[]) and q.id = t.question_id and b.id = $1

-- name: materialise
-- Inserted in the order everybody inserts in; what exists stays as it is. `created` counts new rows.
with written as (
    insert into monitoring_collect_tasks (tenant_id, workspace_id, brand_id, question_id, question_version_id, keyword_id,
        ai_platform_id, collector_type, run_mode, business_date, batch_id, trigger_source, ingest_shard_key, active_task_id,
        execution_owner)
    select b.tenant_id, br.workspace_id, b.brand_id, q.id, q.current_version_id, q.keyword_id, s.platform, b.collector_type,
        b.run_mode, b.business_date, b.id, 'automatic', $4, case when b.status = 'paused' then batch_hold(b.id) end,
        $5
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
-- Under the batches' locks; afterwards counters move by deltas. $2: the one whose tasks are being created. A finished
-- batch's numbers are history: they stay, whoever takes its tasks over.
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
where b.id = u.id and b.status not in ('completed', 'cancelled')
returning b.id, b.expected_count

-- name: mark_projection
-- Expected counts are shown as soon as they are known: a day without answers is missing, not empty.
insert into projection_rebuild_queue as q (tenant_id, brand_id, business_date)
select tenant_id, brand_id, business_date from scheduled_batches where id = $1
on conflict (tenant_id, brand_id, business_date) do update set version = q.version + 1, not_before = now()
