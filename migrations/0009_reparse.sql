-- 3-results §3.3: which extractor judged a run, also one that it found to hold no answer.
alter table question_monitor_runs add column extractor_version text;
