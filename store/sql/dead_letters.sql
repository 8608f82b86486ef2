-- name: find_owners
-- Whose these attempts are, and the key of the shard that their results belong to.
select a.id as attempt_id, a.tenant_id, t.brand_id, t.business_date, t.ingest_shard_key as shard_key
from desktop_task_attempts a
join monitoring_collect_tasks t on t.id = a.monitor_task_id
where a.id = any($1::uuid[])

-- name: audit_letters
-- One row a letter: who sent it on, or threw it away, and why it had died.
insert into audit_events (tenant_id, actor, action, subject, detail)
select l.tenant_id, $1, $2, l.subject, l.detail
from unnest($3::bigint[], $4::text[], $5::jsonb[]) as l(tenant_id, subject, detail)
