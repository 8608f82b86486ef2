-- squawk-ignore-file ban-concurrent-index-creation-in-transaction
-- (migrations/sqlfile.py runs each statement by itself, outside a transaction)
create index concurrently if not exists parse_badcases_open on monitoring_parse_badcases (tenant_id, id) where labelled_at is null;
