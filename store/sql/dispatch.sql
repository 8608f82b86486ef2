-- name: read_online_clients
-- With each tenant's generation: the round is void for a tenant whose counter moved.
select * from available_desktops

-- name: read_minutes
-- Sliding windows: at most the fuse's number of rows, by an index on the creation time. Of each dispatch, oldest first,
-- the seconds until it leaves.
select tenant_id, array_agg((60 - extract(epoch from now() - created_at))::float8 order by created_at) as leaves_in
from desktop_tasks
where kind = 'monitor' and created_at > now() - interval '60 seconds'
group by tenant_id

-- name: read_heads
-- The head of each lane of each workspace on each platform, of tasks that any of its clients may take: an index probe
-- each, so the cost follows workspaces and platforms and never the backlog. High work of an open request has to be bound
-- before it goes.
select t.id, t.tenant_id, t.workspace_id, t.ai_platform_id, t.dispatch_lane, t.dispatch_priority, t.enqueued_at,
    t.target_client_id, t.collect_request_id,
    t.dispatch_lane = 'high' and exists (
        select from monitoring_collect_requests r
        where r.id = t.collect_request_id and r.status in ('accepted', 'dispatching', 'running')) as awaits_client
from unnest($1::bigint[], $2::bigint[]) as n(tenant_id, workspace_id)
cross join unnest($3::text[]) as p(platform)
cross join unnest($5::text[]) as l(lane)
cross join lateral (
    select * from monitoring_collect_tasks t
    where t.tenant_id = n.tenant_id and t.workspace_id = n.workspace_id and t.ai_platform_id = p.platform
      and t.dispatch_lane = l.lane and t.target_client_id is null
      and t.status = 'pending' and t.active_task_id is null and t.collector_type = 'desktop'
      and t.execution_owner = 'desktop_tasks' and (t.dispatch_after is null or t.dispatch_after <= now())
    order by t.dispatch_priority desc, t.enqueued_at, t.id
    limit $4
) t

-- name: read_bound_heads
-- The same of tasks bound to one client: only open requests bind, so a tenant has at most two requests' worth.
select * from (
    select t.id, t.tenant_id, t.workspace_id, t.ai_platform_id, t.dispatch_lane, t.dispatch_priority, t.enqueued_at,
        t.target_client_id, t.collect_request_id, false as awaits_client,
        row_number() over (partition by t.target_client_id, t.ai_platform_id, t.dispatch_lane
            order by t.dispatch_priority desc, t.enqueued_at, t.id) as position
    from monitoring_collect_tasks t
    where t.target_client_id = any($1::uuid[]) and t.status = 'pending' and t.active_task_id is null
      and t.collector_type = 'desktop' and t.execution_owner = 'desktop_tasks'
      and (t.dispatch_after is null or t.dispatch_after <= now())
) t
where t.position <= $3 and t.ai_platform_id = any($2::text[])

-- name: count_normal
-- How much normal work waits, up to the low-water mark of each lane: all that the retry rule asks.
select n.tenant_id, coalesce(sum(c.waiting), 0)::int as waiting
from unnest($1::bigint[], $2::bigint[]) as n(tenant_id, workspace_id)
cross join unnest($3::text[]) as p(platform)
cross join unnest(array['normal_boosted', 'normal']) as l(lane)
cross join lateral (
    select count(*) as waiting from (
        select from monitoring_collect_tasks t
        where t.tenant_id = n.tenant_id and t.workspace_id = n.workspace_id and t.ai_platform_id = p.platform
          and t.dispatch_lane = l.lane and t.target_client_id is null
          and t.status = 'pending' and t.active_task_id is null and t.collector_type = 'desktop'
        limit $4
    ) t
) c
group by n.tenant_id

-- name: read_live
-- What holds a slot or a platform now, over all tenants: as many rows as the fleet has room. A received result holds
-- nothing any more.
select tenant_id, target_client_id, ai_platform_id, status, lane, interrupt_request_id
from desktop_tasks
where kind = 'monitor' and status in ('queued', 'in_progress', 'unknown') and result_received_at is null

-- name: share_unchanged_tenants
-- Share lock: an accept waits until this round is committed. One that is in its transaction now, or has committed since
-- the reading, takes its tenant out of this round.
select t.id
from tenants t join unnest($1::bigint[], $2::bigint[]) as r(id, generation) on t.id = r.id
where t.interrupt_generation = r.generation
order by t.id
for share of t skip locked

-- name: insert_execution_tasks
-- Each pick that is still what the round read becomes an execution task and holds its business task. A desktop that was
-- lost since then gets nothing: who was told to release it may have done so already.
with picked as (
    select t.*, p.execution_id, p.client_id
    from unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::text[], $5::uuid[])
        as p(task_id, execution_id, client_id, lane, bound_to)
    join monitoring_collect_tasks t on t.id = p.task_id
    join desktop_clients c on c.id = p.client_id and c.online and c.lost_at is null and c.revoked_at is null
    where t.status = 'pending' and t.active_task_id is null and t.dispatch_lane = p.lane
      and t.target_client_id is not distinct from p.bound_to
    order by t.id
    for no key update of t skip locked
), inserted as (
    insert into desktop_tasks (id, tenant_id, kind, monitor_task_id, target_client_id, ai_platform_id, priority, lane, source,
        scheduler_group_key, interrupt_generation, enqueued_at)
    select execution_id, tenant_id, 'monitor', id, client_id, ai_platform_id, dispatch_priority, dispatch_lane,
        case when collect_request_id is not null and dispatch_lane = 'high' then 'collect_now'
            when dispatch_lane = 'retry' then 'retry_recovery' else 'daily_schedule' end,
        'qid:' || question_id, interrupt_generation, enqueued_at
    from picked
    on conflict do nothing
    returning id, tenant_id, target_client_id, lane, monitor_task_id
), held as (
    update monitoring_collect_tasks t set active_task_id = i.id, updated_at = now()
    from inserted i where t.id = i.monitor_task_id
)
select id, tenant_id, target_client_id, lane from inserted order by id

-- name: find_unbound_requests
-- Whose high tasks wait for a desktop that could take them, and is there.
select distinct request_id as id, tenant_id from tasks_to_bind order by 1
