-- name: platform_questions
-- One unit is a question on a platform in a run mode: expected once, also when both collectors were asked. It counts in the
-- present wording: that of the question, if any task asks it, else the newest one asked; an answer to another wording is
-- none. Its run is the better one: succeeded over failed, then the collector of the brand's plan, then desktop. A unit
-- without an answer is failed if a run or a task of it failed, else missing, never "not mentioned". A skipped unit is not
-- expected, but an answer that it has is not taken back by skipping a later asking. ui_sample stays out, and so does a
-- platform that cannot do the run mode: not supported is not zero.
with tasks as (
    select t.ai_platform_id, t.run_mode, t.question_id, t.question_version_id, t.collector_type, t.status,
        coalesce(q.topic_id, k.topic_id) as topic_id, a.supports_citation,
        first_value(t.question_version_id) over (
            partition by t.ai_platform_id, t.run_mode, t.question_id
            order by t.status = 'skipped', t.question_version_id is not distinct from q.current_version_id desc,
                t.question_version_id desc) as wording
    from monitoring_collect_tasks t
    join ai_platforms a on a.id = t.ai_platform_id
        and case t.run_mode when 'api_standard' then a.supports_standard else a.supports_search_grounded end
    join questions q on q.id = t.question_id
    left join keywords k on k.id = q.keyword_id
    where t.tenant_id = $1 and t.brand_id = $2 and t.business_date = $3
      and t.run_mode in ('api_standard', 'api_search_grounded')
), preferred as (
    select distinct on (p.run_mode) p.run_mode, p.collector_type
    from monitoring_plans p
    where p.tenant_id = $1 and p.brand_id = $2
    order by p.run_mode, p.active desc, p.id
), answered as (
    -- A left join would be read row by row, each time through all runs of a day that the statistics do not know yet.
    select t.*, r.id as run_id, r.status as run_status
    from (select true as is_asked, * from tasks where question_version_id = wording) t
    full join (
        select * from question_monitor_runs where tenant_id = $1 and brand_id = $2 and business_date = $3
    ) r on r.question_id = t.question_id and r.ai_platform_id = t.ai_platform_id and r.run_mode = t.run_mode
        and r.collector_type = t.collector_type and r.question_version_id = t.question_version_id
    where coalesce(t.is_asked, false)
), units as (
    select distinct on (t.ai_platform_id, t.run_mode, t.question_id) t.*,
        bool_or(t.status = 'failed') over (partition by t.ai_platform_id, t.run_mode, t.question_id) as task_failed,
        bool_and(t.status = 'skipped') over (partition by t.ai_platform_id, t.run_mode, t.question_id) as skipped
    from answered t
    left join preferred p on p.run_mode = t.run_mode
    order by t.ai_platform_id, t.run_mode, t.question_id,
        t.run_status = 'succeeded' desc nulls last, t.run_id is not null desc,
        t.collector_type is not distinct from p.collector_type desc, t.collector_type = 'desktop' desc
), judged as (
    select u.*, x.brand_mentioned, x.brand_position, x.absence, x.brand_mention_count, x.competitor_mention_count,
        x.citation_count, x.own_citation_count, x.run_id is not null as collected,
        x.run_id is null and (u.run_status is not distinct from 'failed' or u.task_failed) as failed
    from units u
    left join question_monitor_parse_results x on x.run_id = u.run_id and u.run_status = 'succeeded'
)
select run_mode, ai_platform_id, question_id, question_version_id, topic_id, run_id,
    1 as expected_count,
    collected::int as collected_count,
    failed::int as failed_count,
    (not collected and not failed)::int as missing_count,
    coalesce(brand_mentioned, false)::int as mentioned_count,
    (brand_position is not distinct from 1)::int as first_count,
    coalesce(brand_position, 0) as position_sum,
    (brand_position is not null)::int as positioned_count,
    coalesce(absence, false)::int as absence_count,
    coalesce(brand_mention_count, 0) as brand_mentions,
    coalesce(competitor_mention_count, 0) as competitor_mentions,
    case when collected and supports_citation then citation_count else 0 end as citation_count,
    case when collected and supports_citation then own_citation_count else 0 end as own_citation_count
from judged
where not skipped or collected

-- name: sums
-- Of the units of the day, so that no two tables can disagree. `columns`: what one row is of.
select {columns}, sum(expected_count)::int as expected_count, sum(collected_count)::int as collected_count,
    sum(failed_count)::int as failed_count, sum(missing_count)::int as missing_count,
    sum(mentioned_count)::int as mentioned_count, sum(first_count)::int as first_count,
    sum(position_sum)::int as position_sum, sum(positioned_count)::int as positioned_count,
    sum(absence_count)::int as absence_count, sum(brand_mentions)::int as brand_mentions,
    sum(competitor_mentions)::int as competitor_mentions, sum(citation_count)::int as citation_count,
    sum(own_citation_count)::int as own_citation_count
from monitoring_platform_question_daily
where tenant_id = $1 and brand_id = $2 and business_date = $3
group by {columns}

-- name: brands
-- The brand's day is the sum of its platforms' days; the completeness of its citations, of those that can cite.
select p.run_mode, sum(p.expected_count)::int as expected_count, sum(p.collected_count)::int as collected_count,
    sum(p.failed_count)::int as failed_count, sum(p.missing_count)::int as missing_count,
    sum(p.mentioned_count)::int as mentioned_count, sum(p.first_count)::int as first_count,
    sum(p.position_sum)::int as position_sum, sum(p.positioned_count)::int as positioned_count,
    sum(p.absence_count)::int as absence_count, sum(p.brand_mentions)::int as brand_mentions,
    sum(p.competitor_mentions)::int as competitor_mentions, sum(p.citation_count)::int as citation_count,
    sum(p.own_citation_count)::int as own_citation_count,
    coalesce(sum(p.expected_count) filter (where a.supports_citation), 0)::int as citation_expected_count,
    coalesce(sum(p.collected_count) filter (where a.supports_citation), 0)::int as citation_collected_count,
    coalesce(sum(p.failed_count) filter (where a.supports_citation), 0)::int as citation_failed_count,
    coalesce(sum(p.missing_count) filter (where a.supports_citation), 0)::int as citation_missing_count
from monitoring_brand_platform_daily p join ai_platforms a on a.id = p.ai_platform_id
where p.tenant_id = $1 and p.brand_id = $2 and p.business_date = $3
group by p.run_mode

-- name: impressions
-- Without a judge model there is nothing to say but how complete the day is.
select run_mode, 'not_configured' as status, expected_count, collected_count, failed_count, missing_count,
    '[]'::jsonb as terms
from monitoring_brand_daily
where tenant_id = $1 and brand_id = $2 and business_date = $3
