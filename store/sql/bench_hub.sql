-- name: seed_fleet
-- $1 desktops, $2 a tenant, whose tokens are their numbers behind a word.
with numbers as (
    select n, (n - 1) / $2::int + 1 as tenant from generate_series(1, $1::int) n
), made as (
    insert into tenants (name) select 'bench ' || tenant from numbers group by tenant returning id, name
), spaces as (
    insert into workspaces (tenant_id, name) select id, 'main' from made returning id, tenant_id
), brands_made as (
    insert into brands (tenant_id, workspace_id, name) select tenant_id, id, 'brand' from spaces
)
insert into desktop_clients (id, tenant_id, workspace_id, user_id, name, token_hash)
select gen_random_uuid(), m.id, s.id, 1, 'desktop ' || n.n, sha256(convert_to('bench-device-' || n.n, 'UTF8'))
from numbers n
join made m on m.name = 'bench ' || n.tenant
join spaces s on s.tenant_id = m.id

-- name: read_fleet
-- The desktops in order of their numbers.
select id from desktop_clients order by substr(name, 9)::int

-- name: seed_waiting
-- $1 tasks, in turns on the first $4 desktops, which wait for their leases. $2: the question, $3: the platform.
with desks as (
    select c.id, c.tenant_id, c.workspace_id, b.id as brand_id, row_number() over (order by md5(c.id::text)) - 1 as place,
        count(*) over () as desks
    from desktop_clients c join brands b on b.tenant_id = c.tenant_id
    where substr(c.name, 9)::int <= $4
), numbers as (
    select n, d.* from generate_series(1, $1::int) n join desks d on d.place = n % d.desks
), asked as (
    insert into questions (tenant_id, brand_id, text) select tenant_id, brand_id, $2 || ' ' || n from numbers
    returning id, tenant_id, brand_id, text
), versions as (
    insert into question_versions (tenant_id, question_id, text, text_hash) select tenant_id, id, text, md5(text) from asked
    returning id, question_id
), tasks as (
    insert into monitoring_collect_tasks (tenant_id, workspace_id, brand_id, question_id, question_version_id, ai_platform_id,
        collector_type, run_mode, business_date, trigger_source, ingest_shard_key, active_task_id, target_client_id)
    select n.tenant_id, n.workspace_id, n.brand_id, a.id, v.id, $3, 'desktop', 'api_standard', current_date, 'automatic',
        n.tenant_id || ':' || n.brand_id || ':' || current_date, gen_random_uuid(), n.id
    from numbers n join asked a on a.text = $2 || ' ' || n.n join versions v on v.question_id = a.id
    returning id, tenant_id, question_id, ai_platform_id, active_task_id, target_client_id
)
insert into desktop_tasks (id, tenant_id, monitor_task_id, target_client_id, ai_platform_id, priority, lane, source,
    scheduler_group_key)
select active_task_id, tenant_id, id, target_client_id, ai_platform_id, 100, 'normal', 'daily_schedule', 'qid:' || question_id
from tasks
returning id, target_client_id
