-- squawk-ignore-file ban-concurrent-index-creation-in-transaction
-- (migrations/sqlfile.py runs each statement by itself, outside a transaction)

-- The weekly retuning reads one week's measured intervals among half a year of attempts (§1.5).
create index concurrently if not exists desktop_task_attempts_intervals on desktop_task_attempts (ended_at)
    where safe_point_interval_ms is not null;

-- Requests that ended before this migration. Here and not with the columns: those hold the table's lock to their commit, and
-- nobody could click while every request ever made is written. Repeatable; what is right already is not written again.
update monitoring_collect_requests
set returned_task_count = greatest(requested_task_count - completed_task_count - failed_task_count, 0),
    interrupt_withdrawn_count = greatest(interrupt_requested_count - interrupt_settled_count - interrupt_timed_out_count, 0)
where status not in ('accepted', 'dispatching', 'running')
  and (returned_task_count <> greatest(requested_task_count - completed_task_count - failed_task_count, 0)
    or interrupt_withdrawn_count
        <> greatest(interrupt_requested_count - interrupt_settled_count - interrupt_timed_out_count, 0));
