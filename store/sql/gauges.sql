-- name: read_waiting
-- What waits on lanes that a desktop may be busy for hours with. One pass over the index of ready work: its cost follows
-- the backlog, and whoever calls this does so the more rarely the longer it takes.
select tenant_id, count(*) filter (where dispatch_lane <> 'retry')::int as normal,
    count(*) filter (where dispatch_lane = 'retry')::int as retry
from monitoring_collect_tasks
where status = 'pending' and active_task_id is null and collector_type = 'desktop'
  and dispatch_lane in ('normal_boosted', 'normal', 'retry')
group by tenant_id

-- name: read_normal_age
-- The age that 99 % of the waiting normal work has not reached, in milliseconds: that of the $1-th oldest. A heap of the
-- oldest hundredth, not a sort of everything.
select extract(epoch from now() - enqueued_at)::float8 * 1000 as age_ms
from monitoring_collect_tasks
where status = 'pending' and active_task_id is null and collector_type = 'desktop'
  and dispatch_lane in ('normal_boosted', 'normal')
order by enqueued_at
offset $1 limit 1

-- name: read_high
-- Of open requests, by their index: high work is theirs alone. It waits since it became high, a further attempt since the
-- last dispatch; work of the legacy path that is on offer waits no more.
select count(*)::int as waiting, coalesce(max(extract(epoch from now() - greatest(t.enqueued_at, r.created_at,
    t.last_dispatched_at))), 0)::float8 * 1000 as oldest_ms
from monitoring_collect_requests r
join monitoring_collect_tasks t on t.collect_request_id = r.id
where r.status in ('accepted', 'dispatching', 'running') and t.status = 'pending' and t.active_task_id is null
  and t.dispatch_lane = 'high' and (t.legacy_offer_expires_at is null or t.legacy_offer_expires_at <= now())

-- name: read_lags
-- Ages of the oldest unprocessed item, in milliseconds: results received and not ingested (on either path), marks not
-- rebuilt. A day that was given up is counted apart: it waits for new data, not for us.
select greatest(
        (select max(extract(epoch from now() - d.result_received_at)) from desktop_tasks d
            where d.status in ('in_progress', 'unknown') and d.result_received_at is not null),
        (select max(extract(epoch from now() - a.result_received_at)) from monitoring_collect_tasks t
            join desktop_task_attempts a on a.monitor_task_id = t.id and a.ended_at is null
            where t.leased_to_executor is not null and t.status = 'received'),
        0)::float8 * 1000 as ingest_ms,
    (select greatest(max(extract(epoch from now() - q.marked_at)), 0)::float8 * 1000 from projection_rebuild_queue q
        where q.not_before < 'infinity') as projection_ms,
    (select count(*)::int from projection_rebuild_queue q where q.not_before = 'infinity') as parked,
    (select count(*)::int from (select from outbox o where o.channel in ('amqp', 'signal') and o.delivered_at is null
        and o.created_at < now() - interval '1 minute' limit 10000) o) as outbox_overdue

-- name: read_owners
-- Unfinished tasks by execution path: those of the legacy path by an index of their own, that holds nothing once the
-- move is over. What runs on the new path is read from its execution rows.
select (select count(*)::int from monitoring_collect_tasks t
        where t.execution_owner = 'legacy' and t.status in ('pending', 'leased', 'received')) as legacy,
    (select count(*)::int from monitoring_collect_tasks t
        where t.execution_owner = 'legacy' and t.status = 'pending' and t.active_task_id is null) as legacy_waiting,
    (select count(*)::int from desktop_tasks d
        where d.kind = 'monitor' and d.status in ('queued', 'in_progress', 'unknown')) as executing

-- name: read_fleet
-- How full the queues of the online desktops are, offers of the legacy path included, and the cluster's sliding minute.
with waiting as (
    select target_client_id as client_id from desktop_tasks where kind = 'monitor' and status = 'queued'
    union all
    select target_client_id from monitoring_collect_tasks where legacy_offer_expires_at > now()
), depths as (
    select count(w.client_id) as queued from online_clients c left join waiting w on w.client_id = c.id
    group by c.id
)
select count(*)::int as online, coalesce(max(queued), 0)::int as highest,
    coalesce(percentile_disc(0.95) within group (order by queued), 0)::int as p95,
    coalesce(avg(queued), 0)::float8 as average,
    (select coalesce(sum(scheduled + high), 0)::int from dispatch_ledger where at > now() - interval '60 seconds')
        as minute_used
from depths

-- name: read_safe_points
-- Measured where a desktop was asked to stop: a day of them, by an index that holds nothing else.
select t.ai_platform_id, percentile_cont(0.95) within group (order by a.safe_point_interval_ms) as p95_ms
from desktop_task_attempts a join monitoring_collect_tasks t on t.id = a.monitor_task_id
where a.safe_point_interval_ms is not null and a.ended_at > now() - interval '24 hours'
group by t.ai_platform_id

-- name: read_written
-- The server's own count of rows written in this database since its statistics began, with its clock.
select extract(epoch from clock_timestamp())::float8 as at, tup_inserted + tup_updated + tup_deleted as rows_written
from pg_stat_database where datname = current_database()
