-- name: measure
-- Of every enabled platform: its interrupt timeouts, and the P95 of the safe-point intervals that attempts of the last $1
-- days measured. By the index on measured attempts; once a week.
select p.id, s.interrupt_soft_timeout_ms as soft_ms, s.interrupt_hard_timeout_ms as hard_ms,
    coalesce(s.timeouts_pinned, false) as pinned, coalesce(m.samples, 0) as samples, m.p95_ms
from ai_platforms p
left join platform_settings s on s.platform_id = p.id
left join (
    select t.ai_platform_id, count(*)::int as samples,
        (percentile_cont($2) within group (order by a.safe_point_interval_ms))::float8 as p95_ms
    from desktop_task_attempts a join monitoring_collect_tasks t on t.id = a.monitor_task_id
    where a.safe_point_interval_ms is not null and a.ended_at > now() - make_interval(days => $1)
    group by t.ai_platform_id
) m on m.ai_platform_id = p.id
where p.enabled
order by p.id

-- name: write_timeouts
-- Setting and audit in one statement. Nothing for timeouts that are so already, or that an operator has pinned meanwhile.
with old as (
    select interrupt_soft_timeout_ms as soft_ms, interrupt_hard_timeout_ms as hard_ms from platform_settings
    where platform_id = $1
), written as (
    insert into platform_settings as s (platform_id, interrupt_soft_timeout_ms, interrupt_hard_timeout_ms)
    values ($1, $2, $3)
    on conflict (platform_id) do update
    set interrupt_soft_timeout_ms = excluded.interrupt_soft_timeout_ms,
        interrupt_hard_timeout_ms = excluded.interrupt_hard_timeout_ms, version = s.version + 1, updated_at = now()
    where not s.timeouts_pinned and (s.interrupt_soft_timeout_ms, s.interrupt_hard_timeout_ms)
        is distinct from (excluded.interrupt_soft_timeout_ms, excluded.interrupt_hard_timeout_ms)
    returning s.version
), audited as (
    insert into audit_events (actor, action, subject, detail)
    select $6, 'timeouts_tuned', $1, jsonb_build_object('before', (select to_jsonb(old) from old),
        'after', jsonb_build_object('soft_ms', $2::int, 'hard_ms', $3::int), 'samples', $4::int, 'p95_ms', $5::float8)
    from written
)
select version from written
