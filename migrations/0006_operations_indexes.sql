-- squawk-ignore-file ban-concurrent-index-creation-in-transaction
-- (migrations/sqlfile.py runs each statement by itself, outside a transaction)

-- How many unfinished tasks are still on the legacy path: empty once the move is over.
create index concurrently if not exists collect_tasks_legacy_open on monitoring_collect_tasks (status)
    where execution_owner = 'legacy' and status in ('pending', 'leased', 'received');

-- Who did this kind of thing lately: the list of the ops API.
create index concurrently if not exists audit_events_action on audit_events (action, id);

-- What is held by an execution task, as many rows as the fleet has room: reconcile compares both sides (1-dispatch §1.8).
create index concurrently if not exists collect_tasks_held on monitoring_collect_tasks (active_task_id)
    where active_task_id is not null;
