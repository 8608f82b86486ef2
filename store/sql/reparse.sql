-- name: next_days
-- One bounded step through the brand-days, each found by the index from the one before: however many runs there are, and
-- most may be read already, a statement looks at the runs of a few days. Day by day, so that a day's marks coalesce.
-- What a desktop itself called failed says nothing that a reader could find; what a person has decided stays.
with recursive days as (
    (select r.tenant_id, r.brand_id, r.business_date, 1 as step from question_monitor_runs r
     where (r.tenant_id, r.brand_id, r.business_date) > ($1, $2, $3) and (r.tenant_id, r.brand_id) <= ($4, $5)
     order by r.tenant_id, r.brand_id, r.business_date
     limit 1)
    union all
    select n.*, d.step + 1
    from days d cross join lateral (
        select r.tenant_id, r.brand_id, r.business_date from question_monitor_runs r
        where (r.tenant_id, r.brand_id, r.business_date) > (d.tenant_id, d.brand_id, d.business_date)
          and (r.tenant_id, r.brand_id) <= ($4, $5)
        order by r.tenant_id, r.brand_id, r.business_date
        limit 1) n
    where d.step < $6
)
select d.tenant_id, d.brand_id, d.business_date, array(
    select r.id from question_monitor_runs r
    -- As labelled_runs has it; looked up run by run, for no more than a few of the many cases belong to these days.
    cross join lateral (
        select coalesce(bool_or(b.labelled_at is null), false) as doubted,
            coalesce(bool_or(b.labelled_at is not null and b.attempt_id = r.attempt_id), false) as labelled
        from monitoring_parse_badcases b where b.run_id = r.id) c
    where r.tenant_id = d.tenant_id and r.brand_id = d.brand_id and r.business_date = d.business_date
      and d.business_date between coalesce($7::date, '-infinity') and coalesce($8::date, 'infinity')
      and r.raw_answer_key is not null
      and r.failure_kind is distinct from 'desktop_error'
      and ($9 or coalesce(r.extractor_version, 'v1') <> $10 or r.failure_kind is not distinct from 'parser_error')
      and ($11::text is null or r.ai_platform_id = $11)
      and (not $12 or r.status = 'failed')
      and (not $13 or c.doubted)
      and not c.labelled
    order by r.id) as wanted
from days d
order by d.step

-- name: find_brand
-- Whose brand it is, so that its runs are found by the index of the days.
select tenant_id from brands where id = $1

-- name: has_platform
-- A name that is mistyped is an error, not an empty result.
select exists (select from ai_platforms where id = $1)

-- name: read_runs
-- Runs as they are stored, in the form that the new facts are compared in: what stays the same is not written again.
select r.id, r.tenant_id, r.brand_id, r.business_date, r.ai_platform_id, r.run_mode, r.attempt_id, r.raw_answer_key,
    r.run_at, r.updated_at, v.text as question,
    array[r.status, r.failure_kind, r.failure_reason, r.provider_model, r.request_id, r.wire, r.finish_reason,
        r.answer_chars::text] as run,
    (select to_jsonb(p) - array['run_id', 'tenant_id', 'run_mode', 'extractor_version', 'search_info_json_key',
            'labelled_case_id', 'parsed_at']
     from question_monitor_parse_results p where p.run_id = r.id) as parse,
    (select coalesce(jsonb_agg(jsonb_build_array(c.ordinal, c.page_url, c.normalized_url, c.domain, c.site_name, c.title,
            c.citation_hash, c.owner) order by c.ordinal), '[]')
     from monitoring_citation_facts c where c.run_id = r.id) as citations,
    (select coalesce(jsonb_agg(jsonb_build_array(b.reason, b.confidence) order by b.reason), '[]')
     from monitoring_parse_badcases b where b.run_id = r.id and b.labelled_at is null) as open_cases,
    exists (
        select from question_monitor_parse_results p
        join competitors c on c.tenant_id = r.tenant_id and c.brand_id = r.brand_id and c.created_at > p.parsed_at
        where p.run_id = r.id) as unsearched
from question_monitor_runs r
join question_versions v on v.id = r.question_version_id
where r.id = any($1::bigint[]) and r.raw_answer_key is not null and r.failure_kind is distinct from 'desktop_error'
order by r.id

-- name: lock_runs
-- Only what is still as it was read: a newer answer, a label or another reparse has the last word.
select r.id from question_monitor_runs r
join unnest($1::bigint[], $2::uuid[], $3::timestamptz[]) as m(id, attempt_id, updated_at) on m.id = r.id
where r.attempt_id = m.attempt_id and r.updated_at = m.updated_at
order by r.id
for no key update of r

-- name: labelled_among
-- After the lock, for a label may have been waited for.
select run_id from labelled_runs where run_id = any($1::bigint[])

-- name: rewrite_runs
-- What a reader says of the body. Key, attempt and time of the answer stay: it is the same answer.
update question_monitor_runs r
set status = f.status, failure_kind = f.failure_kind, failure_reason = f.failure_reason,
    provider_model = f.provider_model, request_id = f.request_id, wire = f.wire, finish_reason = f.finish_reason,
    answer_chars = f.answer_chars, extractor_version = f.extractor_version, updated_at = now()
from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::int[],
            $10::text[])
    as f(id, status, failure_kind, failure_reason, provider_model, request_id, wire, finish_reason, answer_chars,
         extractor_version)
where r.id = f.id

-- name: forget_answers
-- What was parsed of runs that are rewritten, and all of it of those that turned out to hold no answer.
with citations as (delete from monitoring_citation_facts where run_id = any($1::bigint[]))
delete from question_monitor_parse_results where run_id = any($2::bigint[])

-- name: close_cases
-- Open cases whose doubt is gone. One that is still doubted keeps its id, for people may be looking at it.
delete from monitoring_parse_badcases b
using unnest($1::bigint[], $2::text[]) as f(run_id, reason)
where b.run_id = any($1) and b.run_id = f.run_id and b.labelled_at is null and b.reason is distinct from f.reason

-- name: renew_cases
-- Cases that stay open, as today's rules see them.
update monitoring_parse_badcases b
set confidence = f.confidence, extractor_version = f.extractor_version
from unnest($1::bigint[], $2::text[], $3::float8[], $4::text[]) as f(run_id, reason, confidence, extractor_version)
where b.run_id = any($1) and b.run_id = f.run_id and b.reason = f.reason and b.labelled_at is null

-- name: stamp_runs
-- Read again, and found as it was. Its parse result says so too: it has been searched for every competitor of today.
with runs as (
    update question_monitor_runs set extractor_version = $2, updated_at = now() where id = any($1::bigint[]))
update question_monitor_parse_results set extractor_version = $2, parsed_at = now() where run_id = any($1::bigint[])

-- name: mark_days
-- The mark that a result sets: a day that waits its turn keeps it, a parked one gets a new life. Before any run is locked,
-- as in ingest, and in the order of the key, so that neither can lock the other out.
insert into projection_rebuild_queue as q (tenant_id, brand_id, business_date)
select distinct * from unnest($1::bigint[], $2::bigint[], $3::date[])
order by 1, 2, 3
on conflict (tenant_id, brand_id, business_date) do update
set version = q.version + 1,
    tries = case when q.not_before = 'infinity' then 0 else q.tries end,
    not_before = case when q.not_before = 'infinity' then now() else q.not_before end
