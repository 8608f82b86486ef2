-- name: read_contexts
-- What an answer is judged against, the text that this very attempt asked. By id and tenant, so that a forged message meets
-- nothing.
select a.id as attempt_id, t.id as task_id, t.tenant_id, t.brand_id, t.business_date, t.ai_platform_id, t.run_mode,
    v.text as question, a.outcome
from unnest($1::uuid[], $2::bigint[]) as m(attempt_id, tenant_id)
join desktop_task_attempts a on a.id = m.attempt_id and a.tenant_id = m.tenant_id
join monitoring_collect_tasks t on t.id = a.monitor_task_id
join question_versions v on v.id = coalesce(a.question_version_id, t.question_version_id)

-- name: read_brands
-- The names and domains of every brand in a batch with its competitors', in one round trip.
select b.id as brand_id, b.name, b.aliases, b.domains,
    coalesce((select jsonb_agg(jsonb_build_object('id', c.id, 'name', c.name, 'aliases', c.aliases, 'domains', c.domains)
                               order by c.id)
              from competitors c where c.tenant_id = b.tenant_id and c.brand_id = b.id), '[]') as competitors
from brands b
join unnest($1::bigint[], $2::bigint[]) as m(tenant_id, brand_id) on m.tenant_id = b.tenant_id and m.brand_id = b.id

-- name: upsert_runs
-- Dispatch §12.3: success wins, the last success wins, a failure never overwrites a success. Last is the later attempt
-- by the database's clock at its lease, so that the facts do not depend on the order in which results arrive; the same
-- attempt again changes nothing. Inserted in key order, so that two writers cannot lock each other out. A row that was
-- there before has been locked by this statement, which its xmax shows: only such a one has anything to forget.
insert into question_monitor_runs as r (
    tenant_id, brand_id, question_id, question_version_id, ai_platform_id, collector_type, run_mode, business_date,
    status, failure_kind, failure_reason, provider_model, search_enabled, request_id, retry_count, wire, finish_reason,
    answer_chars, raw_answer_key, attempt_id, collect_request_id, run_at, extractor_version)
select t.tenant_id, t.brand_id, t.question_id, coalesce(a.question_version_id, t.question_version_id), t.ai_platform_id,
    t.collector_type, t.run_mode, t.business_date, f.status, f.failure_kind, f.failure_reason, f.provider_model, t.run_mode = 'api_search_grounded',
    f.request_id,
    (select count(*) from desktop_task_attempts e
     where e.monitor_task_id = t.id and (e.leased_at, e.id) < (a.leased_at, a.id)),
    f.wire, f.finish_reason, f.answer_chars, f.raw_answer_key, a.id, t.collect_request_id, f.run_at, f.extractor_version
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::int[],
            $10::text[], $11::timestamptz[], $12::text[])
    as f(attempt_id, status, failure_kind, failure_reason, provider_model, request_id, wire, finish_reason, answer_chars,
         raw_answer_key, run_at, extractor_version)
join desktop_task_attempts a on a.id = f.attempt_id
join monitoring_collect_tasks t on t.id = a.monitor_task_id
order by t.id
on conflict on constraint uk_monitor_run_idempotent do update
set question_version_id = excluded.question_version_id, status = excluded.status, failure_kind = excluded.failure_kind,
    failure_reason = excluded.failure_reason, provider_model = excluded.provider_model,
    search_enabled = excluded.search_enabled, request_id = excluded.request_id, retry_count = excluded.retry_count,
    wire = excluded.wire, finish_reason = excluded.finish_reason, answer_chars = excluded.answer_chars,
    raw_answer_key = excluded.raw_answer_key, attempt_id = excluded.attempt_id,
    collect_request_id = excluded.collect_request_id, run_at = excluded.run_at,
    extractor_version = excluded.extractor_version, updated_at = now()
where (excluded.status = 'succeeded' and r.status = 'failed')
   or (excluded.status = r.status and coalesce(
       (select (n.leased_at, n.id) > (o.leased_at, o.id) from desktop_task_attempts n, desktop_task_attempts o
        where n.id = excluded.attempt_id and o.id = r.attempt_id), true))
returning r.id, r.attempt_id, r.xmax <> 0 as overwritten

-- name: forget_parse
-- A run that was taken is parsed anew; what people labelled stays.
with citations as (delete from monitoring_citation_facts where run_id = any($1::bigint[]))
delete from monitoring_parse_badcases where run_id = any($1::bigint[]) and labelled_at is null

-- name: write_parse_results
-- One parse result a run; a later success replaces it. Mentions come as text: a list of lists would be a 2-D array.
insert into question_monitor_parse_results as p (
    run_id, tenant_id, run_mode, extractor_version, search_hit, brand_mentioned, brand_mention_count, brand_position,
    absence, share_of_voice, competitor_mention_count, mentions, citation_count, own_citation_count, confidence)
select r.id, r.tenant_id, r.run_mode, f.extractor_version, f.search_hit, f.brand_mentioned, f.brand_mention_count,
    f.brand_position, f.absence, f.share_of_voice, f.competitor_mention_count, f.mentions::jsonb, f.citation_count,
    f.own_citation_count, f.confidence
from unnest($1::bigint[], $2::text[], $3::boolean[], $4::boolean[], $5::int[], $6::int[], $7::boolean[], $8::float8[],
            $9::int[], $10::text[], $11::int[], $12::int[], $13::float8[])
    as f(run_id, extractor_version, search_hit, brand_mentioned, brand_mention_count, brand_position, absence,
         share_of_voice, competitor_mention_count, mentions, citation_count, own_citation_count, confidence)
join question_monitor_runs r on r.id = f.run_id
on conflict (run_id) do update
set extractor_version = excluded.extractor_version, search_hit = excluded.search_hit,
    brand_mentioned = excluded.brand_mentioned, brand_mention_count = excluded.brand_mention_count,
    brand_position = excluded.brand_position, absence = excluded.absence, share_of_voice = excluded.share_of_voice,
    competitor_mention_count = excluded.competitor_mention_count, mentions = excluded.mentions,
    citation_count = excluded.citation_count, own_citation_count = excluded.own_citation_count,
    confidence = excluded.confidence, labelled_case_id = null, parsed_at = now()

-- name: write_badcases
-- A case that somebody has labelled is not opened again for the same answer. For another one it is; what was said of the
-- earlier one stays among the regression cases.
insert into monitoring_parse_badcases as b (
    tenant_id, run_id, reason, confidence, attempt_id, raw_answer_key, extractor_version)
select r.tenant_id, r.id, f.reason, f.confidence, r.attempt_id, r.raw_answer_key, r.extractor_version
from unnest($1::bigint[], $2::text[], $3::float8[]) as f(run_id, reason, confidence)
join question_monitor_runs r on r.id = f.run_id
on conflict (run_id, reason) do update
set confidence = excluded.confidence, attempt_id = excluded.attempt_id, raw_answer_key = excluded.raw_answer_key,
    extractor_version = excluded.extractor_version, label = null, labelled_by = null, labelled_at = null,
    figures_before = null, version = b.version + 1, created_at = now()
where b.attempt_id is distinct from excluded.attempt_id
