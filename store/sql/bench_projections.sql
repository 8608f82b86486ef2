-- name: seed_brand
-- A brand with a plan, five competitors, four topics of its questions and as many platforms.
with tenant as (
    insert into tenants (name) values ('projection bench') returning id
), space as (
    insert into workspaces (tenant_id, name) select id, 'main' from tenant returning id, tenant_id
), brand as (
    insert into brands (tenant_id, workspace_id, name, domains) select tenant_id, id, 'Acme', '{acme.example}' from space
    returning id, tenant_id, workspace_id
), rivals as (
    insert into competitors (tenant_id, brand_id, name)
    select tenant_id, id, 'Rival ' || n from brand, generate_series(1, 5) n
), subjects as (
    insert into topics (tenant_id, brand_id, name) select tenant_id, id, 'topic ' || n from brand, generate_series(1, 4) n
)
select id as brand_id, tenant_id from brand

-- name: seed_runs
-- $3 answered units of brand $2 of tenant $1 on $5: a fifth as many questions, each on five platforms. Half of the answers
-- name the brand, each names some competitors, and each cites $4 pages: of 200 sites, half of them seen once a day.
with b as (
    select * from brands where id = $2 and tenant_id = $1
), asked as (
    insert into questions (tenant_id, brand_id, text, topic_id)
    select b.tenant_id, b.id, 'question ' || $5::date || ' ' || n,
        (select min(id) + n % 5 from topics where brand_id = b.id and n % 5 < 4)
    from b, generate_series(1, $3::int / 5) n
    returning id, tenant_id, brand_id, text
), versions as (
    insert into question_versions (tenant_id, question_id, text, text_hash) select tenant_id, id, text, md5(text) from asked
    returning id, question_id
), tasks as (
    insert into monitoring_collect_tasks (tenant_id, workspace_id, brand_id, question_id, question_version_id, ai_platform_id,
        collector_type, run_mode, business_date, trigger_source, ingest_shard_key, status, finished_at)
    select b.tenant_id, b.workspace_id, b.id, v.question_id, v.id, p, 'desktop', 'api_search_grounded', $5::date, 'automatic', 's',
        'completed', now()
    from b, versions v, unnest('{openai,qwen,doubao,kimi,perplexity}'::text[]) p
    returning tenant_id, brand_id, question_id, question_version_id, ai_platform_id
), runs as (
    insert into question_monitor_runs (tenant_id, brand_id, question_id, question_version_id, ai_platform_id, collector_type,
        run_mode, business_date, status, attempt_id)
    select tenant_id, brand_id, question_id, question_version_id, ai_platform_id, 'desktop', 'api_search_grounded', $5::date,
        'succeeded', gen_random_uuid()
    from tasks
    returning id, tenant_id
), parses as (
    insert into question_monitor_parse_results (run_id, tenant_id, run_mode, brand_mentioned, brand_mention_count,
        brand_position, competitor_mention_count, mentions, citation_count, own_citation_count, parsed_at)
    select r.id, r.tenant_id, 'api_search_grounded', r.id % 2 = 0, 3 * (r.id % 2 = 0)::int, case when r.id % 2 = 0 then 1 end,
        coalesce(m.mentions, 0), m.list, $4, 0, now()
    from runs r, lateral (
        select sum(2)::int as mentions, coalesce(jsonb_agg(jsonb_build_object('name', c.name, 'role', 'competitor',
            'competitor_id', c.id, 'count', 2, 'position', 2)), '[]') as list
        from competitors c where c.brand_id = $2 and (r.id + c.id) % 3 > 0) m
)
insert into monitoring_citation_facts (run_id, ordinal, tenant_id, page_url, normalized_url, domain, site_name, title,
    citation_hash, owner)
select r.id, n, r.tenant_id, url, url, domain, case when n % 2 = 0 then 'Site of ' || domain end, 'About ' || url,
    encode(sha256(url::bytea), 'hex'), 'other'
from runs r, generate_series(1, $4::int) n,
    lateral (select 'site' || (r.id * 7 + n) % 200 || '.example' as domain) d,
    lateral (select 'https://' || domain || '/page/' || case when n % 2 = 0 then r.id else r.id % 50 end as url) u

-- name: another_answer
-- One run more or less is an answer: what a result changes, or what a day that is being collected looks like.
update question_monitor_runs set status = case status when 'failed' then 'succeeded' else 'failed' end
where id = (select min(id) from question_monitor_runs where tenant_id = $1 and brand_id = $2 and business_date = $3)

-- name: forget
-- As before the first rebuild of the day.
delete from {table} where tenant_id = $1 and brand_id = $2 and business_date = $3

-- name: count_rows
-- What the day has in one of the tables.
select count(*)::int from {table} where tenant_id = $1 and brand_id = $2 and business_date = $3
