-- 3-results §3.3: what people say of doubtful answers, with everything that a regression test needs of the case.

-- The attempt and raw body that the doubt was about: the run may be overwritten by a later answer.
alter table monitoring_parse_badcases add column attempt_id uuid;
alter table monitoring_parse_badcases add column raw_answer_key text;
alter table monitoring_parse_badcases add column extractor_version text;
-- Raised by every label: the ETag of the case.
alter table monitoring_parse_badcases add column version bigint not null default 1;
-- What the extractor had said of the run when its first label was put on: taking the label back puts it back.
alter table monitoring_parse_badcases add column figures_before jsonb;

-- Every label with what a regression test needs of its answer, as things were when it was put on. It outlasts the case,
-- which a later answer of the run may open again.
create table monitoring_regression_cases (
    attempt_id uuid not null,
    reason text not null,
    tenant_id bigint not null references tenants,
    brand_id bigint not null references brands on delete cascade,
    label jsonb not null,
    -- {platform, question, brand, competitors, own_domains, competitor_domains, wire, extractor_version}
    about jsonb not null,
    raw_answer_key text,
    body_sha256 text,
    labelled_by text not null,
    labelled_at timestamptz not null default now(),
    primary key (attempt_id, reason)
);
create index on monitoring_regression_cases (tenant_id);

-- A person's label decides the figures of this run until another answer takes its place; a reparse leaves them alone.
alter table question_monitor_parse_results add column labelled_case_id bigint;

-- Doubtful answers as people see them. `stands`: the run is still that answer's. Cases from before `attempt_id` was
-- kept stand by themselves: an open case goes with the answer that replaces its own.
create view parse_badcase_list as
select b.id, b.tenant_id, w.workspace_id, r.brand_id, b.run_id, r.question_id, v.text as question,
    r.ai_platform_id as platform, r.run_mode, r.business_date, b.reason, b.confidence,
    coalesce(b.attempt_id, r.attempt_id) as attempt_id, coalesce(b.attempt_id, r.attempt_id) = r.attempt_id as stands,
    coalesce(b.raw_answer_key, case when coalesce(b.attempt_id, r.attempt_id) = r.attempt_id then r.raw_answer_key end)
        as raw_answer_key,
    b.extractor_version, b.label, b.labelled_by, b.labelled_at, b.created_at, b.version
from monitoring_parse_badcases b
join question_monitor_runs r on r.id = b.run_id
join brands w on w.id = r.brand_id
left join desktop_task_attempts a on a.id = coalesce(b.attempt_id, r.attempt_id)
join question_versions v on v.id = coalesce(a.question_version_id, r.question_version_id);

-- Runs whose figures, or whose failure, a person has decided: nobody but another label may change them.
create view labelled_runs as
select r.id as run_id, b.id as case_id
from monitoring_parse_badcases b
join question_monitor_runs r on r.id = b.run_id and r.attempt_id = b.attempt_id
where b.labelled_at is not null;
