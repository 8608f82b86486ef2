-- name: seed_brands
-- $1 tenants, so that every shard has some, with a brand, its competitors, a desktop and a running batch each.
with tenant as (
    insert into tenants (name) select 'bench ' || n from generate_series(1, $1::int) n returning id
), space as (
    insert into workspaces (tenant_id, name) select id, 'main' from tenant returning id, tenant_id
), client as (
    insert into desktop_clients (id, tenant_id, workspace_id, user_id, name, token_hash, online, connection_epoch,
        last_heartbeat_at)
    select gen_random_uuid(), tenant_id, id, 1, 'desktop', sha256(('bench ' || tenant_id)::bytea), true, 1, now() from space
), brands_made as (
    insert into brands (tenant_id, workspace_id, name, aliases, domains)
    select tenant_id, id, $2, $3::text[], array[$4] from space
    returning id, tenant_id, workspace_id
), rivals as (
    insert into competitors (tenant_id, brand_id, name) select tenant_id, id, name from brands_made cross join unnest($5::text[]) name
), plans as (
    insert into monitoring_plans (tenant_id, workspace_id, brand_id, name, cadence, platforms)
    select tenant_id, workspace_id, id, 'daily', '0 6 * * *', $6::text[] from brands_made
    returning id, tenant_id, brand_id
)
insert into scheduled_batches (tenant_id, brand_id, plan_id, business_date, slot, run_mode, collector_type, workflow_id, status,
    scheduled_for, cut_off_at, expected_count)
select tenant_id, brand_id, id, current_date, 'bench', 'api_standard', 'desktop', 'bench/' || brand_id, 'running', now(),
    now() + interval '1 day', 1000000
from plans

-- name: bench_tasks
-- Which rows belong to which answer: $n of the benchmark's own counting.
create table bench_tasks (n int primary key, task_id bigint, question_id bigint, version_id bigint, attempt_id uuid unique)

-- name: seed_results
-- Tasks $1 to $2 as they stand when their results have been received: leased, started, waiting for ingest. $3: platforms.
with numbers as (
    select n, b.id as brand_id, b.tenant_id, b.workspace_id, ($3::text[])[n % cardinality($3::text[]) + 1] as platform
    from generate_series($1::int, $2::int) n
    join (select *, row_number() over (order by id) - 1 as place, count(*) over () as brands from brands) b
        on b.place = n % b.brands
), asked as (
    insert into questions (tenant_id, brand_id, text) select tenant_id, brand_id, 'question ' || n from numbers
    returning id, tenant_id, brand_id, text
), versions as (
    insert into question_versions (tenant_id, question_id, text, text_hash) select tenant_id, id, text, md5(text) from asked
    returning id, question_id
), tasks as (
    insert into monitoring_collect_tasks (tenant_id, workspace_id, brand_id, question_id, question_version_id, ai_platform_id,
        collector_type, run_mode, business_date, batch_id, trigger_source, ingest_shard_key, active_task_id, last_dispatched_at)
    select n.tenant_id, n.workspace_id, n.brand_id, a.id, v.id, n.platform, 'desktop', 'api_standard', current_date, s.id,
        'automatic', n.tenant_id || ':' || n.brand_id || ':' || current_date, gen_random_uuid(), now()
    from numbers n
    join asked a on a.text = 'question ' || n.n
    join versions v on v.question_id = a.id
    join scheduled_batches s on s.brand_id = n.brand_id
    returning id, tenant_id, question_id, question_version_id, ai_platform_id, active_task_id
), executions as (
    insert into desktop_tasks (id, tenant_id, monitor_task_id, target_client_id, ai_platform_id, status, priority, lane, source,
        started_at, attempt, attempt_id, result_received_at)
    select t.active_task_id, t.tenant_id, t.id, c.id, t.ai_platform_id, 'in_progress', 100, 'normal', 'daily_schedule', now(), 1,
        gen_random_uuid(), now()
    from tasks t join desktop_clients c on c.tenant_id = t.tenant_id
    returning id, tenant_id, monitor_task_id, target_client_id, attempt_id
), attempts as (
    insert into desktop_task_attempts (id, tenant_id, task_id, monitor_task_id, client_id, attempt, token_hash, started_at,
        result_received_at)
    select attempt_id, tenant_id, id, monitor_task_id, target_client_id, 1, sha256('bench'), now(), now() from executions
    returning id, monitor_task_id
)
insert into bench_tasks (n, task_id, question_id, version_id, attempt_id)
select substr(a.text, 10)::int, t.id, t.question_id, t.question_version_id, e.id
from tasks t join attempts e on e.monitor_task_id = t.id join asked a on a.id = t.question_id

-- name: read_results
-- What a result message says of these tasks.
select b.n, b.attempt_id, b.task_id, d.id as execution_id, t.tenant_id, d.target_client_id, t.ingest_shard_key,
    d.result_received_at as received_at
from bench_tasks b
join monitoring_collect_tasks t on t.id = b.task_id
join desktop_tasks d on d.monitor_task_id = t.id
where b.n between $1 and $2
order by b.n

-- name: count_ingested
-- Every result closed its task, and how many rows of facts they became.
select (select count(*)::int from monitoring_collect_tasks t join bench_tasks b on b.task_id = t.id
        where b.n between $1 and $2 and t.status = 'completed') as completed,
    (select count(*)::int from question_monitor_runs r join bench_tasks b on b.attempt_id = r.attempt_id
        where b.n between $1 and $2) as runs,
    (select count(*)::int from question_monitor_parse_results p join question_monitor_runs r on r.id = p.run_id
        join bench_tasks b on b.attempt_id = r.attempt_id where b.n between $1 and $2) as parse_results,
    (select count(*)::int from monitoring_citation_facts c join question_monitor_runs r on r.id = c.run_id
        join bench_tasks b on b.attempt_id = r.attempt_id where b.n between $1 and $2) as citations,
    (select count(*)::int from monitoring_parse_badcases c join question_monitor_runs r on r.id = c.run_id
        join bench_tasks b on b.attempt_id = r.attempt_id where b.n between $1 and $2) as badcases

-- name: read_durability
-- Without them a commit costs nothing, and rows that are committed one by one look cheap.
select name, setting from pg_settings where name in ('fsync', 'synchronous_commit')

-- name: count_pages
-- How often a page comes again: what is remembered of it is not worked out again.
select count(*)::int as citations, count(distinct c.normalized_url)::int as distinct_pages
from monitoring_citation_facts c join question_monitor_runs r on r.id = c.run_id join bench_tasks b on b.attempt_id = r.attempt_id
where b.n between $1 and $2

-- name: bench_twins
create table bench_twins (place int, old_id bigint, new_id bigint, question_id bigint, version_id bigint, attempt_id uuid)

-- name: pair_twins
-- The same rows for other questions: runs of the tasks $1 to $2 as those of the tasks $3 further on.
insert into bench_twins
select row_number() over (order by r.id), r.id, nextval(pg_get_serial_sequence('question_monitor_runs', 'id')), b.question_id,
    b.version_id, b.attempt_id
from question_monitor_runs r
join bench_tasks a on a.attempt_id = r.attempt_id
join bench_tasks b on b.n = a.n + $3::int
where a.n between $1 and $2

-- name: twin_runs
select w.new_id as id, r.tenant_id, r.brand_id, w.question_id, w.version_id as question_version_id, r.ai_platform_id,
    r.collector_type, r.run_mode, r.business_date, r.status, r.failure_kind, r.failure_reason, r.provider_model,
    r.search_enabled, r.request_id, r.retry_count, r.wire, r.finish_reason, r.answer_chars, r.raw_answer_key, w.attempt_id,
    r.run_at
from question_monitor_runs r join bench_twins w on w.old_id = r.id where w.place between $1 and $2 order by w.place

-- name: twin_parse_results
select w.new_id as run_id, p.tenant_id, p.run_mode, p.extractor_version, p.search_hit, p.brand_mentioned, p.brand_mention_count,
    p.brand_position, p.absence, p.share_of_voice, p.competitor_mention_count, p.mentions, p.citation_count,
    p.own_citation_count, p.confidence
from question_monitor_parse_results p join bench_twins w on w.old_id = p.run_id where w.place between $1 and $2 order by w.place

-- name: twin_citations
select w.new_id as run_id, c.ordinal, c.tenant_id, c.page_url, c.normalized_url, c.domain, c.site_name, c.title,
    c.citation_hash, c.owner
from monitoring_citation_facts c join bench_twins w on w.old_id = c.run_id where w.place between $1 and $2
order by w.place, c.ordinal

-- name: twin_badcases
select w.new_id as run_id, c.tenant_id, c.reason, c.confidence
from monitoring_parse_badcases c join bench_twins w on w.old_id = c.run_id where w.place between $1 and $2 order by w.place
