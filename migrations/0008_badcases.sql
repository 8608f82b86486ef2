-- 3-results §3.3: what people say of doubtful answers, with everything that a regression test needs of the case.

-- The attempt and raw body that the doubt was about: the run may be overwritten by a later answer.
alter table monitoring_parse_badcases add column attempt_id uuid;
alter table monitoring_parse_badcases add column raw_answer_key text;
alter table monitoring_parse_badcases add column extractor_version text;
-- Raised by every label: the ETag of the case.
alter table monitoring_parse_badcases add column version bigint not null default 1;

-- A person's label decides the figures of this run until another answer takes its place; a reparse leaves them alone.
alter table question_monitor_parse_results add column labelled_case_id bigint;
