-- name: claim_mark
-- The oldest due mark, taken for 5 s by moving not_before: no lock is held while the rebuild runs, so ingest never
-- waits for it. The version read here decides later whether the mark may go.
update projection_rebuild_queue q
set not_before = now() + interval '5 seconds'
where (q.tenant_id, q.brand_id, q.business_date) in (
    select tenant_id, brand_id, business_date from projection_rebuild_queue
    where not_before <= now()
    order by marked_at
    limit 1
    for update skip locked)
returning q.tenant_id, q.brand_id, q.business_date, q.version, q.tries

-- name: lock_day
-- One rebuild of a brand-day at a time, whoever runs it. Readers are not concerned.
select pg_advisory_xact_lock(hashtextextended(format('projection:%s:%s:%s', $1::bigint, $2::bigint, $3::date), 0))

-- name: forget_day
-- Both tables of the key, rewritten below: readers see the old rows until commit.
with brand as (
    delete from monitoring_brand_daily where tenant_id = $1 and brand_id = $2 and business_date = $3)
delete from monitoring_brand_platform_daily where tenant_id = $1 and brand_id = $2 and business_date = $3

-- name: rebuild_platform_days
-- One unit is a question on a platform in a run mode: expected once, also when both collectors were asked. Its run is
-- the better one: succeeded over failed, then the collector of the brand's plan, then desktop. A unit without a
-- success is failed if a run or a task of it failed, else missing, never "not mentioned". A skipped unit is not expected,
-- but an answer that it has is not taken back by skipping a later asking. ui_sample stays out, and an
-- answer to an older wording is no answer to the present one.
with tasks as (
    select t.question_id, t.question_version_id, t.ai_platform_id, t.run_mode, t.collector_type, t.status
    from monitoring_collect_tasks t
    where t.tenant_id = $1 and t.brand_id = $2 and t.business_date = $3
      and t.run_mode in ('api_standard', 'api_search_grounded')
), preferred as (
    select distinct on (p.run_mode) p.run_mode, p.collector_type
    from monitoring_plans p
    where p.tenant_id = $1 and p.brand_id = $2
    order by p.run_mode, p.active desc, p.id
), units as (
    select distinct on (t.ai_platform_id, t.run_mode, t.question_id)
        t.ai_platform_id, t.run_mode, r.id as run_id, r.status as run_status,
        bool_or(t.status = 'failed') over (partition by t.ai_platform_id, t.run_mode, t.question_id) as task_failed,
        bool_and(t.status = 'skipped') over (partition by t.ai_platform_id, t.run_mode, t.question_id) as skipped
    from tasks t
    left join preferred p on p.run_mode = t.run_mode
    left join question_monitor_runs r
        on r.tenant_id = $1 and r.brand_id = $2 and r.business_date = $3 and r.question_id = t.question_id
        and r.ai_platform_id = t.ai_platform_id and r.run_mode = t.run_mode and r.collector_type = t.collector_type
        and r.question_version_id = t.question_version_id
    order by t.ai_platform_id, t.run_mode, t.question_id,
        r.status = 'succeeded' desc nulls last, r.id is not null desc,
        t.collector_type is not distinct from p.collector_type desc, t.collector_type = 'desktop' desc
)
insert into monitoring_brand_platform_daily (
    tenant_id, brand_id, business_date, run_mode, ai_platform_id, expected_count, collected_count, failed_count,
    missing_count, mentioned_count, first_count, position_sum, positioned_count, brand_mentions, competitor_mentions,
    citation_count, own_citation_count)
select $1, $2, $3, u.run_mode, u.ai_platform_id,
    count(*),
    count(*) filter (where u.run_status = 'succeeded'),
    count(*) filter (where u.run_status is distinct from 'succeeded' and (u.run_status = 'failed' or u.task_failed)),
    count(*) filter (where u.run_status is null and not u.task_failed),
    count(*) filter (where x.brand_mentioned),
    count(*) filter (where x.brand_position = 1),
    coalesce(sum(x.brand_position), 0),
    count(x.brand_position),
    coalesce(sum(x.brand_mention_count), 0),
    coalesce(sum(x.competitor_mention_count), 0),
    coalesce(sum(x.citation_count), 0),
    coalesce(sum(x.own_citation_count), 0)
from units u
left join question_monitor_parse_results x on x.run_id = u.run_id and u.run_status = 'succeeded'
where not u.skipped or u.run_status = 'succeeded'
group by u.run_mode, u.ai_platform_id

-- name: rebuild_brand_days
-- The brand's day is the sum of its platforms' days, so the two can't disagree.
insert into monitoring_brand_daily (
    tenant_id, brand_id, business_date, run_mode, expected_count, collected_count, failed_count, missing_count,
    mentioned_count, first_count, position_sum, positioned_count, brand_mentions, competitor_mentions, citation_count,
    own_citation_count)
select tenant_id, brand_id, business_date, run_mode, sum(expected_count), sum(collected_count), sum(failed_count),
    sum(missing_count), sum(mentioned_count), sum(first_count), sum(position_sum), sum(positioned_count),
    sum(brand_mentions), sum(competitor_mentions), sum(citation_count), sum(own_citation_count)
from monitoring_brand_platform_daily
where tenant_id = $1 and brand_id = $2 and business_date = $3
group by tenant_id, brand_id, business_date, run_mode

-- name: drop_mark
-- Only at the version that was rebuilt: a result that came meanwhile has raised it, and its mark stays.
delete from projection_rebuild_queue where tenant_id = $1 and brand_id = $2 and business_date = $3 and version = $4

-- name: keep_mark
-- Marked again meanwhile: at the end of the queue, and half a second later, so that a busy day is rebuilt twice a
-- second at most.
update projection_rebuild_queue
set not_before = now() + interval '500 milliseconds', marked_at = now(), tries = 0, last_error = null
where tenant_id = $1 and brand_id = $2 and business_date = $3 and version <> $4

-- name: postpone_mark
-- A rebuild that failed waits longer each time; after the last try it is parked, visible with its error, until new
-- data or an operator marks it again.
update projection_rebuild_queue
set tries = tries + 1, last_error = $4, marked_at = now(),
    not_before = case when tries + 1 >= $5 then 'infinity'
                      else now() + least(interval '5 minutes', interval '1 second' * power(2, tries)) end
where tenant_id = $1 and brand_id = $2 and business_date = $3

-- name: mark_day
-- The same mark that a result sets, for one brand-day: backfill and operators.
insert into projection_rebuild_queue as q (tenant_id, brand_id, business_date) values ($1, $2, $3)
on conflict (tenant_id, brand_id, business_date) do update
set version = q.version + 1, tries = 0, not_before = now()
