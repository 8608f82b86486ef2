-- name: read_brand_plans
-- One row for a brand of the caller's; empty arrays when no desktop plan is active.
select b.workspace_id,
    coalesce(array_agg(distinct p.run_mode) filter (where p.id is not null), '{}') as run_modes,
    coalesce((select array_agg(distinct x order by x) from monitoring_plans q, unnest(q.platforms) x
              where q.tenant_id = $1 and q.brand_id = $2 and q.active and q.collector_type = 'desktop'), '{}') as platforms,
    (now() at time zone coalesce((array_agg(p.time_zone order by p.id) filter (where p.id is not null))[1], 'UTC'))::date
        as business_date
from brands b
left join monitoring_plans p on p.tenant_id = $1 and p.brand_id = b.id and p.active and p.collector_type = 'desktop'
where b.tenant_id = $1 and b.id = $2 and b.workspace_id = any($3::bigint[])
group by b.id

-- name: check_named
-- What the caller named must exist and be the brand's: a typing error must not silently narrow the scope.
select
    $3::bigint is null or exists (select from keywords where tenant_id = $1 and brand_id = $2 and id = $3) as keyword_known,
    array(select x from unnest($4::bigint[]) x
          where not exists (select from questions q where q.tenant_id = $1 and q.brand_id = $2 and q.id = x)) as unknown_questions,
    array(select x from unnest($5::text[]) x
          where not exists (select from ai_platforms p where p.id = x and p.enabled)) as unknown_platforms

-- name: resolve_pairs
-- One row a task; 501 are enough to know that they are too many. A platform without the capability gets no task.
select q.id as question_id, p.id as platform, m.run_mode
from questions q
join ai_platforms p on p.id = any($5::text[]) and p.enabled
cross join unnest($6::text[]) as m(run_mode)
where q.tenant_id = $1 and q.brand_id = $2 and q.active and q.current_version_id is not null
  and ($3::bigint is null or q.keyword_id = $3)
  and ($4::bigint[] is null or q.id = any($4))
  and (q.only_platforms is null or p.id = any(q.only_platforms))
  and case m.run_mode when 'api_search_grounded' then p.supports_search_grounded else p.supports_standard end
order by q.id, p.id, m.run_mode
limit 501

-- name: create_missing
-- Created straight into the normal lane; the promotion that follows moves them like the others.
insert into monitoring_collect_tasks (tenant_id, workspace_id, brand_id, question_id, question_version_id, keyword_id,
    ai_platform_id, collector_type, run_mode, business_date, trigger_source, ingest_shard_key, execution_owner)
select $1, $7, $2, q.id, q.current_version_id, q.keyword_id, s.platform, 'desktop', s.run_mode, $3, 'manual', $8, $9
from unnest($4::bigint[], $5::text[], $6::text[]) as s(question_id, platform, run_mode)
join questions q on q.tenant_id = $1 and q.id = s.question_id
order by q.id, s.platform, s.run_mode
on conflict on constraint collect_tasks_business_key do nothing

-- name: find_scope_tasks
select t.id
from unnest($4::bigint[], $5::text[], $6::text[]) as s(question_id, platform, run_mode)
join monitoring_collect_tasks t on t.tenant_id = $1 and t.brand_id = $2 and t.question_id = s.question_id
    and t.ai_platform_id = s.platform and t.run_mode = s.run_mode and t.collector_type = 'desktop' and t.business_date = $3
order by t.id
