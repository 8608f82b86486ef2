-- name: write_picks
-- A round's whole effect in one statement. An accept waits for it by the share lock on its tenant; one that is in its
-- transaction now, or has committed since the reading, takes its tenant out of this round, as a pause does. Each pick that
-- is still what the round read becomes an execution task, holds its business task, is announced and is counted. A desktop
-- that was lost since then gets nothing: who was told to release it may have done so already.
-- `in (…) is true` keeps the two look-ups hashed: as joins they would be looped over for each pick.
with valid as materialized (
    select n.id from tenants n join unnest($6::bigint[], $7::bigint[]) as r(id, generation) on n.id = r.id
    where n.interrupt_generation = r.generation and not n.paused
    order by n.id
    for share of n skip locked
), picked as materialized (
    select t.id, t.tenant_id, t.ai_platform_id, t.dispatch_priority, t.dispatch_lane, t.collect_request_id, t.question_id,
        t.interrupt_generation, t.enqueued_at, t.dispatch_attempts, p.execution_id, p.client_id
    from unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::text[], $5::uuid[])
        as p(task_id, execution_id, client_id, lane, bound_to)
    join monitoring_collect_tasks t on t.id = p.task_id
    where t.status = 'pending' and t.active_task_id is null and t.dispatch_lane = p.lane
      and t.execution_owner = 'desktop_tasks' and t.target_client_id is not distinct from p.bound_to
      and (t.tenant_id in (select id from valid)) is true
      and (p.client_id in (select c.id from desktop_clients c
        where c.id = any($3) and c.online and c.lost_at is null and c.revoked_at is null and not c.paused)) is true
    order by t.id
    for no key update of t skip locked
), inserted as (
    insert into desktop_tasks (id, tenant_id, kind, monitor_task_id, target_client_id, ai_platform_id, priority, lane, source,
        scheduler_group_key, interrupt_generation, enqueued_at)
    select execution_id, tenant_id, 'monitor', id, client_id, ai_platform_id, dispatch_priority, dispatch_lane,
        case when collect_request_id is not null and dispatch_lane = 'high' then 'collect_now'
            when dispatch_lane = 'retry' and dispatch_attempts > 0 then 'retry_recovery' else 'daily_schedule' end,
        'qid:' || question_id, interrupt_generation, enqueued_at
    from picked
    on conflict do nothing
    returning id, tenant_id, target_client_id, lane, monitor_task_id
), held as (
    update monitoring_collect_tasks t set active_task_id = i.id, updated_at = now()
    from inserted i where t.id = i.monitor_task_id
), announced as (
    -- By execution id: these are made in the order of the picks, and outbox ids keep it. Boosted travels as normal.
    insert into outbox (channel, kind, key, tenant_id, client_id, payload)
    select 'amqp', 'task_available',
        'monitor.' || case lane when 'normal_boosted' then 'normal' else lane end || '.' || target_client_id, tenant_id,
        target_client_id, jsonb_build_object('type', 'task_available', 'task_id', id, 'client_id', target_client_id)
    from inserted order by id
), counted as (
    insert into dispatch_ledger (tenant_id, scheduled, high)
    select tenant_id, count(*) filter (where lane <> 'high'), count(*) filter (where lane = 'high')
    from inserted group by tenant_id
)
select array(select monitor_task_id from inserted) as dispatched,
    array(select id from picked where (execution_id in (select id from inserted)) is not true) as barred,
    case when exists (select from inserted) then pg_notify('giveway_outbox_amqp', '')::text end as woken

-- name: share_unchanged_tenants
-- The same lock for offers of the legacy path.
select n.id from tenants n join unnest($1::bigint[], $2::bigint[]) as r(id, generation) on n.id = r.id
where n.interrupt_generation = r.generation and not n.paused
order by n.id
for share of n skip locked

-- name: count_offers
-- What this transaction put on offer counts as dispatched.
with offered as materialized (
    select id, tenant_id, dispatch_lane as lane from monitoring_collect_tasks
    where id = any($1::bigint[]) and legacy_offered_at = now() and legacy_offer_expires_at > now()
), counted as (
    insert into dispatch_ledger (tenant_id, scheduled, high)
    select tenant_id, count(*) filter (where lane <> 'high'), count(*) filter (where lane = 'high')
    from offered group by tenant_id
)
select coalesce(array_agg(id), '{}') as offered from offered

-- name: prune_ledger
-- What no window can see any more; by its index, and bounded.
delete from dispatch_ledger
where ctid = any(array(select ctid from dispatch_ledger where at < now() - interval '2 minutes' order by at limit 50000))
