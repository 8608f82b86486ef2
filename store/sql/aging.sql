-- name: count_aged
-- Per tenant of the owner ($1 of $2): how much ready work of these lanes ($5) has waited at least $3 seconds, counted up to
-- $4 a lane, and since when. By the index of ready work, so that the cost follows the bound and never the backlog. What an open
-- request holds is the request's.
select n.id as tenant_id, sum(a.ready)::int as ready, min(a.oldest) as oldest
from tenants n
cross join unnest($5::text[]) as l(lane)
cross join lateral (
    select count(*)::int as ready, min(t.enqueued_at) as oldest
    from (
        select t.enqueued_at from monitoring_collect_tasks t
        where t.tenant_id = n.id and t.dispatch_lane = l.lane and t.dispatch_lane in ('normal', 'retry')
          and t.status = 'pending' and t.active_task_id is null and t.collector_type = 'desktop'
          and t.enqueued_at <= now() - make_interval(secs => $3)
          and (t.dispatch_after is null or t.dispatch_after <= now())
          and (t.collect_request_id is null or not exists (select from monitoring_collect_requests r
            where r.id = t.collect_request_id and r.status in ('accepted', 'dispatching', 'running')))
        order by t.enqueued_at, t.id
        limit $4
    ) t
) a
where n.id % $2::int = $1::int and not n.paused and a.ready > 0
group by n.id

-- name: promote
-- The oldest of each tenant ($2: how many) enter normal_boosted. Locked by id and looked at again: somebody else may have
-- them. Where they came from before a collect-now (`origin_lane`) is not touched.
with oldest as materialized (
    select a.id
    from unnest($1::bigint[], $2::int[]) as n(tenant_id, most)
    cross join lateral (
        select h.id
        from unnest($4::text[]) as l(lane)
        cross join lateral (
            select t.id, t.enqueued_at from monitoring_collect_tasks t
            where t.tenant_id = n.tenant_id and t.dispatch_lane = l.lane
              and t.dispatch_lane in ('normal', 'retry') and t.status = 'pending'
              and t.active_task_id is null and t.collector_type = 'desktop'
              and t.enqueued_at <= now() - make_interval(secs => $3)
              and (t.dispatch_after is null or t.dispatch_after <= now())
              and (t.collect_request_id is null or not exists (select from monitoring_collect_requests r
                where r.id = t.collect_request_id and r.status in ('accepted', 'dispatching', 'running')))
            order by t.enqueued_at, t.id
            limit n.most
        ) h
        order by h.enqueued_at, h.id
        limit n.most
    ) a
), locked as materialized (
    select t.id, t.dispatch_priority as base from monitoring_collect_tasks t
    where t.id = any(array(select id from oldest)) and t.status = 'pending' and t.active_task_id is null
      and t.dispatch_lane = any($4::text[])
    order by t.id
    for no key update of t skip locked
)
update monitoring_collect_tasks t
set dispatch_lane = 'normal_boosted', unaged_priority = l.base,
    dispatch_priority = aged_priority(l.base, now() - t.enqueued_at), updated_at = now()
from locked l
where t.id = l.id
returning t.id

-- name: raise_boosted
-- Boosted work goes on aging: its oldest, which go next, are raised to what their wait is worth now, so that nobody who
-- entered later with less of a wait overtakes them. Never lowered. The bound ($3) is shared by the tenants that have any.
with boosted as materialized (
    select n.id from tenants n
    cross join lateral (
        select from monitoring_collect_tasks t
        where t.tenant_id = n.id and t.dispatch_lane = 'normal_boosted' and t.status = 'pending'
          and t.active_task_id is null and t.collector_type = 'desktop'
        order by t.enqueued_at, t.id
        limit 1
    ) t
    where n.id % $2::int = $1::int
), oldest as materialized (
    select a.id
    from boosted n
    cross join lateral (
        select t.id, t.unaged_priority, t.dispatch_priority, t.enqueued_at from monitoring_collect_tasks t
        where t.tenant_id = n.id and t.dispatch_lane = 'normal_boosted' and t.status = 'pending'
          and t.active_task_id is null and t.collector_type = 'desktop'
        order by t.enqueued_at, t.id
        limit (select greatest(1, $3::int / greatest(1, count(*)::int)) from boosted)
    ) a
    where a.unaged_priority is not null and aged_priority(a.unaged_priority, now() - a.enqueued_at) > a.dispatch_priority
    limit $3::int
), locked as materialized (
    select t.id from monitoring_collect_tasks t
    where t.id = any(array(select id from oldest)) and t.status = 'pending' and t.active_task_id is null
      and t.dispatch_lane = 'normal_boosted'
    order by t.id
    for no key update of t skip locked
)
update monitoring_collect_tasks t
set dispatch_priority = greatest(t.dispatch_priority, aged_priority(t.unaged_priority, now() - t.enqueued_at)),
    updated_at = now()
from locked l
where t.id = l.id
returning t.id
