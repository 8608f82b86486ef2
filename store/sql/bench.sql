-- name: backlog
-- Normal tasks of a brand of their own questions, so that they only wait: for benchmarks.
with added as (
    insert into questions (tenant_id, brand_id, text)
    select b.tenant_id, b.id, 'Backlog question ' || n from brands b, generate_series(1, $2) n where b.id = $1
    returning id, tenant_id, brand_id, text
), versions as (
    insert into question_versions (tenant_id, question_id, text, text_hash)
    select tenant_id, id, text, md5(text) from added
    returning id, question_id
)
insert into monitoring_collect_tasks (tenant_id, workspace_id, brand_id, question_id, question_version_id, ai_platform_id,
    collector_type, run_mode, business_date, trigger_source, ingest_shard_key)
select a.tenant_id, b.workspace_id, a.brand_id, a.id, v.id, 'openai', 'desktop', 'api_standard', current_date, 'automatic',
    a.tenant_id || ':' || a.brand_id || ':' || current_date
from added a join brands b on b.id = a.brand_id join versions v on v.question_id = a.id
