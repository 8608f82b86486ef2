-- name: pages
-- By normalised URL, of platforms that can cite; an answer cites a page once, whatever the number of its links. Names and
-- titles differ between platforms: the first in order is the same one in every rebuild, and needs no sorting of them all.
select g.run_mode, c.citation_hash, c.owner, min(c.normalized_url) as normalized_url, min(c.domain) as domain,
    min(c.site_name) as site_name, min(c.title) as title, count(*)::int as citation_count
from monitoring_platform_question_daily g
join ai_platforms a on a.id = g.ai_platform_id and a.supports_citation
join monitoring_citation_facts c on c.run_id = g.run_id
where g.tenant_id = $1 and g.brand_id = $2 and g.business_date = $3 and g.collected_count = 1
group by g.run_mode, c.citation_hash, c.owner

-- name: sources
-- By registrable domain; a page whose domain its redirect hides, by the name of its site.
select g.run_mode, coalesce(c.domain, c.site_name, '') as source, c.owner, min(c.domain) as domain,
    min(c.site_name) as site_name, count(*)::int as citation_count, count(distinct c.run_id)::int as answer_count,
    count(distinct c.citation_hash)::int as page_count
from monitoring_platform_question_daily g
join ai_platforms a on a.id = g.ai_platform_id and a.supports_citation
join monitoring_citation_facts c on c.run_id = g.run_id
where g.tenant_id = $1 and g.brand_id = $2 and g.business_date = $3 and g.collected_count = 1
group by g.run_mode, coalesce(c.domain, c.site_name, ''), c.owner
