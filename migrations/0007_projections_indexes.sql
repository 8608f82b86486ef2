-- squawk-ignore-file ban-concurrent-index-creation-in-transaction
-- (migrations/sqlfile.py runs each statement by itself, outside a transaction)
-- The oldest due mark without reading those behind it.
create index concurrently if not exists projection_rebuild_queue_age on projection_rebuild_queue (marked_at);
