-- name: competitor_platforms
-- Every competitor on every platform that was asked: with zeros where no answer names it. An answer parsed before the
-- competitor was there was not searched for it: missing, not zero. One that was removed keeps its row where answers name
-- it, so that the mentions still sum up to the brand's.
with answers as (
    select g.run_mode, g.ai_platform_id, x.mentions, x.parsed_at, x.brand_mentioned, x.brand_position
    from monitoring_platform_question_daily g
    join question_monitor_parse_results x on x.run_id = g.run_id
    where g.tenant_id = $1 and g.brand_id = $2 and g.business_date = $3 and g.collected_count = 1
), named as (
    select a.run_mode, a.ai_platform_id, m.competitor_id, min(m.name) as name,
        count(*) as mentioned_count,
        sum(m.mentions) as mention_count,
        count(*) filter (where m.position = 1) as first_count,
        coalesce(sum(m.position), 0) as position_sum,
        count(m.position) as positioned_count,
        count(*) filter (where a.brand_mentioned) as together_count,
        count(*) filter (where a.brand_mentioned and m.position < a.brand_position) as ahead_count
    from answers a
    cross join lateral (
        select m.competitor_id, min(m.name) as name, sum(m.count) as mentions, min(m.position) as position
        from jsonb_to_recordset(a.mentions) as m(role text, competitor_id bigint, name text, count int, position int)
        where m.role = 'competitor' and m.competitor_id is not null and m.count > 0
        group by m.competitor_id
    ) m
    group by a.run_mode, a.ai_platform_id, m.competitor_id
), rivals as (
    select c.id, c.name, c.created_at from competitors c where c.tenant_id = $1 and c.brand_id = $2
    union all
    select n.competitor_id, min(n.name), '-infinity' from named n
    where not exists (select from competitors c where c.id = n.competitor_id and c.brand_id = $2)
    group by n.competitor_id
), unsearched as (
    select c.id, a.run_mode, a.ai_platform_id, count(*) as answers
    from rivals c join answers a on a.parsed_at < c.created_at
    group by c.id, a.run_mode, a.ai_platform_id
)
select p.run_mode, p.ai_platform_id, c.id as competitor_id, c.name as competitor_name, p.expected_count,
    p.collected_count - coalesce(u.answers, 0) as collected_count, p.failed_count,
    p.missing_count + coalesce(u.answers, 0) as missing_count,
    coalesce(n.mentioned_count, 0) as mentioned_count, coalesce(n.mention_count, 0) as mention_count,
    coalesce(n.first_count, 0) as first_count, coalesce(n.position_sum, 0) as position_sum,
    coalesce(n.positioned_count, 0) as positioned_count, coalesce(n.together_count, 0) as together_count,
    coalesce(n.ahead_count, 0) as ahead_count
from monitoring_brand_platform_daily p
cross join rivals c
left join named n on n.run_mode = p.run_mode and n.ai_platform_id = p.ai_platform_id and n.competitor_id = c.id
left join unsearched u on u.run_mode = p.run_mode and u.ai_platform_id = p.ai_platform_id and u.id = c.id
where p.tenant_id = $1 and p.brand_id = $2 and p.business_date = $3

-- name: competitors
-- The sum of its platforms.
select run_mode, competitor_id, min(competitor_name) as competitor_name, sum(expected_count) as expected_count,
    sum(collected_count) as collected_count, sum(failed_count) as failed_count, sum(missing_count) as missing_count,
    sum(mentioned_count) as mentioned_count, sum(mention_count) as mention_count, sum(first_count) as first_count,
    sum(position_sum) as position_sum, sum(positioned_count) as positioned_count,
    sum(together_count) as together_count, sum(ahead_count) as ahead_count
from monitoring_competitor_platform_daily
where tenant_id = $1 and brand_id = $2 and business_date = $3
group by run_mode, competitor_id
