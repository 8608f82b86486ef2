-- name: overview_days
-- Today is the brand's own: in the time zone of its first active plan, else 3-results §3.7's default.
with today as (
    select (now() at time zone coalesce((select p.time_zone from monitoring_plans p
        where p.tenant_id = $1 and p.brand_id = $2 and p.active order by p.id limit 1), 'Asia/Shanghai'))::date as day
)
select d.day::date as business_date,
    coalesce(m.expected_count, 0) as expected_count, coalesce(m.collected_count, 0) as collected_count,
    coalesce(m.failed_count, 0) as failed_count, coalesce(m.missing_count, 0) as missing_count,
    coalesce(m.mentioned_count, 0) as mentioned_count, coalesce(m.first_count, 0) as first_count,
    coalesce(m.position_sum, 0) as position_sum, coalesce(m.positioned_count, 0) as positioned_count,
    coalesce(m.brand_mentions, 0) as brand_mentions, coalesce(m.competitor_mentions, 0) as competitor_mentions,
    coalesce(m.citation_count, 0) as citation_count, coalesce(m.own_citation_count, 0) as own_citation_count
from today t
cross join lateral generate_series(t.day - ($3::int - 1), t.day, interval '1 day') as d(day)
left join monitoring_brand_daily m on m.tenant_id = $1 and m.brand_id = $2 and m.business_date = d.day::date
    and m.run_mode = $4
order by d.day

-- name: platform_stats
-- A platform of a plan without results yet is listed too: missing is not the same as absent.
with today as (
    select (now() at time zone coalesce((select p.time_zone from monitoring_plans p
        where p.tenant_id = $1 and p.brand_id = $2 and p.active order by p.id limit 1), 'Asia/Shanghai'))::date as day
), sums as (
    select m.ai_platform_id, sum(m.expected_count)::int as expected_count, sum(m.collected_count)::int as collected_count,
        sum(m.failed_count)::int as failed_count, sum(m.missing_count)::int as missing_count,
        sum(m.mentioned_count)::int as mentioned_count, sum(m.first_count)::int as first_count,
        sum(m.position_sum)::int as position_sum, sum(m.positioned_count)::int as positioned_count,
        sum(m.brand_mentions)::int as brand_mentions, sum(m.competitor_mentions)::int as competitor_mentions,
        sum(m.citation_count)::int as citation_count, sum(m.own_citation_count)::int as own_citation_count
    from monitoring_brand_platform_daily m, today t
    where m.tenant_id = $1 and m.brand_id = $2 and m.run_mode = $4
      and m.business_date between t.day - ($3::int - 1) and t.day
    group by m.ai_platform_id
), planned as (
    select distinct x as id from monitoring_plans p, unnest(p.platforms) x
    where p.tenant_id = $1 and p.brand_id = $2 and p.active
)
select a.id as platform, a.name, a.supports_citation,
    case $4 when 'api_search_grounded' then a.supports_search_grounded else a.supports_standard end as supported,
    coalesce(s.expected_count, 0) as expected_count, coalesce(s.collected_count, 0) as collected_count,
    coalesce(s.failed_count, 0) as failed_count, coalesce(s.missing_count, 0) as missing_count,
    coalesce(s.mentioned_count, 0) as mentioned_count, coalesce(s.first_count, 0) as first_count,
    coalesce(s.position_sum, 0) as position_sum, coalesce(s.positioned_count, 0) as positioned_count,
    coalesce(s.brand_mentions, 0) as brand_mentions, coalesce(s.competitor_mentions, 0) as competitor_mentions,
    coalesce(s.citation_count, 0) as citation_count, coalesce(s.own_citation_count, 0) as own_citation_count
from ai_platforms a
left join sums s on s.ai_platform_id = a.id
where s.ai_platform_id is not null or a.id in (select id from planned)
order by a.id

-- name: list_platforms
-- A reference table, not a tenant's.
select id, name, supports_standard, supports_search_grounded, supports_citation, supports_batch, default_run_mode
from ai_platforms where enabled order by id
