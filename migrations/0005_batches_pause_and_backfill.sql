-- 1-dispatch §1.6: batches that pause, and the backfill of what a cut-off left.

-- What a waiting task of a paused batch has in `active_task_id`. Held like that it is in no index of the claim, so a paused
-- backlog costs a round nothing, whatever its size. Execution tasks have uuids of version 7, so none is ever one of these.
create function batch_hold(batch_id bigint) returns uuid
    language sql immutable strict parallel safe
    return lpad(to_hex(batch_id), 32, '0')::uuid;

alter table scheduled_batches
    -- The batch whose cut-off left what this one collects afterwards.
    add column backfill_of bigint,
    -- Since when it is paused; null: it is not.
    add column paused_at timestamptz,
    -- Since when it is not paused any more. Its tasks are let go page by page after that.
    add column unpaused_at timestamptz,
    add constraint scheduled_batches_backfill_fk foreign key (backfill_of) references scheduled_batches on delete cascade
        not valid;
