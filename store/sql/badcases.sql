-- name: list_cases
-- Newest first, by id, which never changes. Of the tenant, and through the brand of the workspaces that the token opens.
select * from parse_badcase_list c
where c.tenant_id = $1 and c.workspace_id = any($2::bigint[]) and c.id < $3
  and ($4::bigint is null or c.brand_id = $4) and ($5::text is null or c.reason = $5)
  and ($6::text is null or c.platform = $6) and ($7::boolean is null or (c.labelled_at is not null) = $7)
  and ($8::date is null or c.business_date >= $8) and ($9::date is null or c.business_date <= $9)
order by c.id desc limit $10

-- name: list_cases_of_all
-- The same for the command, which belongs to the installation.
select * from parse_badcase_list c
where ($1::bigint is null or c.tenant_id = $1) and c.id < $2
  and ($3::bigint is null or c.brand_id = $3) and ($4::text is null or c.reason = $4)
  and ($5::text is null or c.platform = $5) and ($6::boolean is null or (c.labelled_at is not null) = $6)
  and ($7::date is null or c.business_date >= $7) and ($8::date is null or c.business_date <= $8)
order by c.id desc limit $9

-- name: read_case
-- With the run and its figures as they are now. Without a tenant: for the command.
select c.*, r.status, r.failure_kind, r.failure_reason, r.wire, r.finish_reason, r.answer_chars, r.provider_model, r.run_at,
    p.brand_mentioned, p.brand_mention_count, p.brand_position, p.absence, p.share_of_voice, p.competitor_mention_count,
    p.mentions, p.citation_count, p.extractor_version as parsed_by
from parse_badcase_list c
join question_monitor_runs r on r.id = c.run_id
left join question_monitor_parse_results p on p.run_id = c.run_id
where c.id = $1 and ($2::bigint is null or (c.tenant_id = $2 and c.workspace_id = any($3::bigint[])))

-- name: lock_run
-- After the brand-day's mark and before the case, as ingest has it.
select attempt_id from question_monitor_runs where id = $1 for no key update

-- name: lock_case
-- Its version stays what was read until the label is written.
select version, attempt_id, label, figures_before is not null as decides
from monitoring_parse_badcases
where id = $1 for no key update

-- name: keep_figures
-- What the extractor had said, at the first label. A label that follows it replaces that label, not what was said.
update monitoring_parse_badcases b
set attempt_id = r.attempt_id, raw_answer_key = r.raw_answer_key, figures_before = jsonb_build_object(
    'run', jsonb_build_object('status', r.status, 'failure_kind', r.failure_kind, 'failure_reason', r.failure_reason),
    'parse', (select to_jsonb(p) from question_monitor_parse_results p where p.run_id = r.id),
    'citations', (select coalesce(jsonb_agg(to_jsonb(c) order by c.ordinal), '[]') from monitoring_citation_facts c
                  where c.run_id = r.id))
from question_monitor_runs r
where b.id = $1 and r.id = b.run_id and b.figures_before is null

-- name: put_back_run
-- The run as the extractor had left it.
update question_monitor_runs r
set status = k.status, failure_kind = k.failure_kind, failure_reason = k.failure_reason, updated_at = now()
from monitoring_parse_badcases b,
    jsonb_to_record(b.figures_before -> 'run') as k(status text, failure_kind text, failure_reason text)
where b.id = $1 and r.id = b.run_id

-- name: forget_facts
-- Before what was kept is put back, and of a run that a person found to be no answer.
with citations as (delete from monitoring_citation_facts where run_id = $1)
delete from question_monitor_parse_results where run_id = $1

-- name: put_back_parse
-- As it was, with its time; without a row where the run had failed.
insert into question_monitor_parse_results (
    run_id, tenant_id, run_mode, extractor_version, search_hit, brand_mentioned, brand_mention_count, brand_position,
    absence, share_of_voice, competitor_mention_count, mentions, citation_count, own_citation_count, confidence, parsed_at)
select k.run_id, k.tenant_id, k.run_mode, k.extractor_version, k.search_hit, k.brand_mentioned, k.brand_mention_count,
    k.brand_position, k.absence, k.share_of_voice, k.competitor_mention_count, k.mentions, k.citation_count,
    k.own_citation_count, k.confidence, k.parsed_at
from monitoring_parse_badcases b,
    jsonb_populate_record(null::question_monitor_parse_results, b.figures_before -> 'parse') k
where b.id = $1 and jsonb_typeof(b.figures_before -> 'parse') = 'object'

-- name: put_back_citations
-- As they were.
insert into monitoring_citation_facts (
    run_id, ordinal, tenant_id, page_url, normalized_url, domain, site_name, title, citation_hash, owner)
select k.run_id, k.ordinal, k.tenant_id, k.page_url, k.normalized_url, k.domain, k.site_name, k.title, k.citation_hash,
    k.owner
from monitoring_parse_badcases b,
    jsonb_populate_recordset(null::monitoring_citation_facts, b.figures_before -> 'citations') k
where b.id = $1

-- name: write_figures
-- The label's figures in the place of the extractor's; what it says nothing of stays. An answer nobody could read had none.
-- Who labels looks for every competitor of today, also one that the extractor did not know.
with answered as (
    update question_monitor_runs
    set status = 'succeeded', failure_kind = null, failure_reason = null, updated_at = now()
    where id = $1
    returning id, tenant_id, run_mode
)
insert into question_monitor_parse_results as p (
    run_id, tenant_id, run_mode, extractor_version, brand_mentioned, brand_mention_count, brand_position, absence,
    share_of_voice, competitor_mention_count, mentions, confidence, labelled_case_id)
select id, tenant_id, run_mode, $3, $4::int > 0, $4, $5, $6, $7, $8, $9, 1, $2 from answered
on conflict (run_id) do update
set brand_mentioned = excluded.brand_mentioned, brand_mention_count = excluded.brand_mention_count,
    brand_position = excluded.brand_position, absence = excluded.absence, share_of_voice = excluded.share_of_voice,
    competitor_mention_count = excluded.competitor_mention_count, mentions = excluded.mentions, confidence = 1,
    labelled_case_id = excluded.labelled_case_id, parsed_at = now()

-- name: fail_run
-- A person found no answer in it: missing from now on, not "not mentioned".
update question_monitor_runs set status = 'failed', failure_kind = $2, failure_reason = $3, updated_at = now() where id = $1

-- name: write_label
-- Together with its audit and the regression case; the caller holds the row.
with written as (
    update monitoring_parse_badcases
    set label = $2, labelled_by = $3, labelled_at = now(), version = version + 1
    where id = $1
    returning id, tenant_id, version
), audited as (
    insert into audit_events (tenant_id, actor, action, subject, detail)
    select tenant_id, $3, 'badcase_labelled', 'badcase ' || id::text,
        jsonb_build_object('before', $4::jsonb, 'after', $2::jsonb)
    from written
), kept as (
    insert into monitoring_regression_cases as k (
        attempt_id, reason, tenant_id, brand_id, label, about, raw_answer_key, body_sha256, labelled_by)
    select c.attempt_id, c.reason, c.tenant_id, c.brand_id, $2, $5, c.raw_answer_key, $6, $3
    from parse_badcase_list c where c.id = $1
    on conflict (attempt_id, reason) do update
    set label = excluded.label, about = excluded.about, raw_answer_key = excluded.raw_answer_key,
        body_sha256 = excluded.body_sha256, labelled_by = excluded.labelled_by, labelled_at = now()
)
select version from written

-- name: take_label_back
-- Together with its audit and the regression case; the caller holds the row.
with written as (
    update monitoring_parse_badcases
    set label = null, labelled_by = null, labelled_at = null, figures_before = null, version = version + 1
    where id = $1
    returning id, tenant_id, version
), audited as (
    insert into audit_events (tenant_id, actor, action, subject, detail)
    select tenant_id, $2, 'badcase_label_taken_back', 'badcase ' || id::text, jsonb_build_object('before', $3::jsonb)
    from written
), dropped as (
    delete from monitoring_regression_cases k using parse_badcase_list c
    where c.id = $1 and k.attempt_id = c.attempt_id and k.reason = c.reason
)
select version from written

-- name: regression_cases
-- What people said, in the order in which answers were asked: a page of keys that never change.
select attempt_id, reason, label, about, raw_answer_key, body_sha256 from monitoring_regression_cases
where ($1::bigint is null or tenant_id = $1) and ($2::bigint is null or brand_id = $2)
  and ($3::uuid is null or (attempt_id, reason) > ($3, $4))
order by attempt_id, reason limit $5
