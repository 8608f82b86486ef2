-- squawk-ignore-file ban-concurrent-index-creation-in-transaction
-- (migrations/sqlfile.py runs each statement by itself, outside a transaction)

-- Apart from its addition, so that nobody waits for the check.
alter table scheduled_batches validate constraint scheduled_batches_backfill_fk;
-- One backfill a batch, also when two transactions would start it at once.
create unique index concurrently if not exists scheduled_batches_backfill on scheduled_batches (backfill_of)
    where backfill_of is not null;
-- A tenant's batches, newest first.
create index concurrently if not exists scheduled_batches_listing on scheduled_batches (tenant_id, id);
