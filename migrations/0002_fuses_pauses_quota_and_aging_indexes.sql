-- squawk-ignore-file ban-concurrent-index-creation-in-transaction
-- (migrations/sqlfile.py runs each statement by itself, outside a transaction)

-- Aging looks at the oldest ready work of one tenant and lane (§1.4).
create index concurrently if not exists collect_tasks_ready_age on monitoring_collect_tasks
    (tenant_id, dispatch_lane, enqueued_at, id)
    where status = 'pending' and active_task_id is null and collector_type = 'desktop'
      and dispatch_lane in ('normal_boosted', 'normal', 'retry');
-- The minute windows are read from the ledger now: one index less that each dispatch pays for.
drop index concurrently if exists desktop_tasks_minute;
