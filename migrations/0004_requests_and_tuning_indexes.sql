-- The weekly retuning reads one week's measured intervals among half a year of attempts (§1.5).
create index concurrently if not exists desktop_task_attempts_intervals on desktop_task_attempts (ended_at)
    where safe_point_interval_ms is not null;
