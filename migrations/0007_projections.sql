-- 3-results §3.4: the other eight daily summaries beside monitoring_brand_daily and monitoring_brand_platform_daily.

-- Answers that say they know nothing of the brand: neither visible nor missing.
alter table monitoring_brand_daily add column absence_count integer not null default 0;
alter table monitoring_brand_platform_daily add column absence_count integer not null default 0;
