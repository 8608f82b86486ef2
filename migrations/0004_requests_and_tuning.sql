-- 1-dispatch §1.5: what a request gave back, what became of its interrupts, which text an attempt asked, tuned timeouts.

alter table monitoring_collect_requests
    -- Tasks that went back to where they came from: requested = completed + failed + unfinished + returned.
    add column returned_task_count integer not null default 0,
    -- Orders to stop that were taken back or passed on: at the end, asked = settled + timed out + withdrawn.
    add column interrupt_withdrawn_count integer not null default 0,
    -- What the caller sent, without what the server adds (run modes, business date): an Idempotency-Key is compared by it.
    add column call_hash text;

-- The text that this lease asked; the task may ask another one by the time the answer comes.
alter table desktop_task_attempts add column question_version_id bigint;

-- An operator's explicit interrupt timeouts: the weekly retuning leaves them alone.
alter table platform_settings add column timeouts_pinned boolean not null default false;
