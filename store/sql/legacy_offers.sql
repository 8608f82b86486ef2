-- name: offer
-- Each pick that is still what the round read is offered to its desktop, for as long as a lease lasts. The same guards as
-- where the round inserts execution tasks.
with picked as (
    select t.id, p.client_id
    from unnest($1::bigint[], $2::uuid[], $3::text[], $4::uuid[]) as p(task_id, client_id, lane, bound_to)
    join monitoring_collect_tasks t on t.id = p.task_id
    join desktop_clients c on c.id = p.client_id and c.online and c.lost_at is null and c.revoked_at is null and not c.paused
    where t.execution_owner = 'legacy' and t.status = 'pending' and t.active_task_id is null and t.dispatch_lane = p.lane
      and t.target_client_id is not distinct from p.bound_to
      and (t.legacy_offer_expires_at is null or t.legacy_offer_expires_at <= now())
    order by t.id
    for no key update of t skip locked
)
update monitoring_collect_tasks t
set target_client_id = p.client_id, last_dispatched_at = now(), legacy_offered_at = now(),
    legacy_offer_expires_at = now() + make_interval(secs => $5), updated_at = now()
from picked p
where t.id = p.id
returning t.id, t.tenant_id, t.target_client_id, t.dispatch_lane as lane

-- name: read_offers
-- What stands on offer to the clients of these connections ($1 to $3: client, tenant, epoch; $4: one of its tasks, or all:
-- null), as their frames say it, most urgent first. Nothing for a connection that a newer one has replaced.
select a.epoch, t.id, t.target_client_id, t.dispatch_priority, t.dispatch_lane, t.question_id, t.business_date,
    t.interrupt_generation, t.updated_at, t.enqueued_at, t.ai_platform_id, v.text as question, t.collect_request_id,
    t.legacy_offer_expires_at
from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[]) as a(client_id, tenant_id, epoch, task_id)
join desktop_clients c on c.id = a.client_id and c.tenant_id = a.tenant_id and c.connection_epoch = a.epoch
join monitoring_collect_tasks t on t.target_client_id = c.id and t.tenant_id = c.tenant_id
join question_versions v on v.id = t.question_version_id
where c.revoked_at is null and (a.task_id is null or t.id = a.task_id)
  and t.legacy_offer_expires_at > now() and t.status = 'pending' and t.active_task_id is null
order by case t.dispatch_lane when 'high' then 70 when 'normal_boosted' then 50 when 'normal' then 40 else 20 end desc,
    t.dispatch_priority desc, t.dispatch_after nulls first, t.planned_at, t.id

-- name: withdraw_scheduled
-- Scheduled work on offer to a client, outside the request: nobody has it yet, so it is simply not on offer any more, and
-- was not dispatched.
update monitoring_collect_tasks t
set target_client_id = null, legacy_offer_expires_at = null, last_dispatched_at = null, updated_at = now()
where t.target_client_id = $1 and t.legacy_offer_expires_at is not null and t.status = 'pending'
  and t.dispatch_lane <> 'high' and t.collect_request_id is distinct from $2
returning t.id, t.batch_id

-- name: withdraw_stale
-- Offers that nobody can take any more: run out, or their task or desktop is not what it was. The task may go to anybody
-- again; what an open request bound stays bound. Skipped when somebody is at the task.
with stale as materialized (
    select t.id from monitoring_collect_tasks t
    left join desktop_clients c on c.id = t.target_client_id
    where t.legacy_offer_expires_at is not null
      and (t.legacy_offer_expires_at <= now() or t.status <> 'pending' or t.active_task_id is not null
        or c.id is null or c.lost_at is not null or c.revoked_at is not null)
    order by t.id
    limit $1
    for no key update of t skip locked
)
update monitoring_collect_tasks t
set legacy_offer_expires_at = null, last_dispatched_at = case when t.status = 'pending' then null else t.last_dispatched_at end,
    target_client_id = case when exists (select from monitoring_collect_requests r
        where r.id = t.collect_request_id and r.status in ('accepted', 'dispatching', 'running')) then t.target_client_id end,
    updated_at = now()
from stale s
where t.id = s.id
returning t.id

-- name: unheard
-- On offer to a connected client, and not leased for longer than a push takes: its hint is given again, each time later.
with unheard as materialized (
    select t.id from monitoring_collect_tasks t
    join desktop_clients c on c.id = t.target_client_id and c.online
    where t.legacy_offer_expires_at > now() and t.status = 'pending' and t.active_task_id is null
      and t.updated_at < now() - make_interval(secs => $1)
    order by t.id
    limit $2
    for no key update of t skip locked
)
update monitoring_collect_tasks t set updated_at = now()
from unheard u
where t.id = u.id
returning t.id, t.tenant_id, t.target_client_id, t.dispatch_lane as lane
