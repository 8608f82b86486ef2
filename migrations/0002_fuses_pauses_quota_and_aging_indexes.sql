-- Aging looks at the oldest ready work of one tenant and lane (§1.4).
create index concurrently if not exists collect_tasks_ready_age on monitoring_collect_tasks
    (tenant_id, dispatch_lane, enqueued_at, id)
    where status = 'pending' and active_task_id is null and collector_type = 'desktop'
      and dispatch_lane in ('normal_boosted', 'normal', 'retry');
