-- squawk-ignore-file require-concurrent-index-creation, adding-foreign-key-constraint, constraint-missing-not-valid
-- (those tables are new here: nobody reads or writes them yet)

-- 3-results §3.4: the other eight daily summaries beside monitoring_brand_daily and monitoring_brand_platform_daily.
-- Every count is of units: a question on a platform in a run mode, expected once a day. expected = collected + failed +
-- missing in each row. The ids of what may be deleted (question, topic, competitor, run) are values, not foreign keys:
-- what a day was stays what it was, and a rebuild does not look up a parent for each of its thousands of rows.
-- Rows are rewritten while results come in, hence room in each page for a new version of its rows.

-- Answers that say they know nothing of the brand: neither visible nor missing.
alter table monitoring_brand_daily add column absence_count integer not null default 0;
alter table monitoring_brand_platform_daily add column absence_count integer not null default 0;
-- How complete the day's citations are: the units on platforms that can cite. The others are not supported, which is not zero.
alter table monitoring_brand_daily
    add column citation_expected_count integer not null default 0,
    add column citation_collected_count integer not null default 0,
    add column citation_failed_count integer not null default 0,
    add column citation_missing_count integer not null default 0;

-- One unit a row: the grain that the other tables are sums of.
create table monitoring_platform_question_daily (
    tenant_id bigint not null,
    brand_id bigint not null references brands on delete cascade,
    business_date date not null,
    run_mode text not null,
    ai_platform_id text not null,
    question_id bigint not null,
    question_version_id bigint not null,
    topic_id bigint,
    -- The run that counts for the unit; null: none has come.
    run_id bigint,
    expected_count integer not null,
    collected_count integer not null,
    failed_count integer not null,
    missing_count integer not null,
    mentioned_count integer not null,
    first_count integer not null,
    position_sum integer not null,
    positioned_count integer not null,
    absence_count integer not null,
    brand_mentions integer not null,
    competitor_mentions integer not null,
    citation_count integer not null,
    own_citation_count integer not null,
    rebuilt_at timestamptz not null default now(),
    primary key (tenant_id, brand_id, business_date, run_mode, ai_platform_id, question_id, question_version_id)
) with (fillfactor = 80);

create table monitoring_question_daily (
    tenant_id bigint not null,
    brand_id bigint not null references brands on delete cascade,
    business_date date not null,
    run_mode text not null,
    question_id bigint not null,
    question_version_id bigint not null,
    topic_id bigint,
    expected_count integer not null,
    collected_count integer not null,
    failed_count integer not null,
    missing_count integer not null,
    mentioned_count integer not null,
    first_count integer not null,
    position_sum integer not null,
    positioned_count integer not null,
    absence_count integer not null,
    brand_mentions integer not null,
    competitor_mentions integer not null,
    citation_count integer not null,
    own_citation_count integer not null,
    rebuilt_at timestamptz not null default now(),
    primary key (tenant_id, brand_id, business_date, run_mode, question_id, question_version_id)
) with (fillfactor = 80);

-- Questions without a topic are the row without one, so that topics sum up to the brand.
create table monitoring_topic_daily (
    tenant_id bigint not null,
    brand_id bigint not null references brands on delete cascade,
    business_date date not null,
    run_mode text not null,
    topic_id bigint,
    expected_count integer not null,
    collected_count integer not null,
    failed_count integer not null,
    missing_count integer not null,
    mentioned_count integer not null,
    first_count integer not null,
    position_sum integer not null,
    positioned_count integer not null,
    absence_count integer not null,
    brand_mentions integer not null,
    competitor_mentions integer not null,
    citation_count integer not null,
    own_citation_count integer not null,
    rebuilt_at timestamptz not null default now(),
    constraint monitoring_topic_daily_key unique nulls not distinct
        (tenant_id, brand_id, business_date, run_mode, topic_id)
) with (fillfactor = 80);

-- collected_count: answers that were searched for this competitor. One that was added later has its earlier answers among
-- the missing, so that a zero is a true zero.
create table monitoring_competitor_platform_daily (
    tenant_id bigint not null,
    brand_id bigint not null references brands on delete cascade,
    business_date date not null,
    run_mode text not null,
    ai_platform_id text not null,
    competitor_id bigint not null,
    competitor_name text not null,
    expected_count integer not null,
    collected_count integer not null,
    failed_count integer not null,
    missing_count integer not null,
    mentioned_count integer not null,
    mention_count integer not null,
    first_count integer not null,
    position_sum integer not null,
    positioned_count integer not null,
    -- Answers that mention the brand too, and those of them in which the competitor stands before it.
    together_count integer not null,
    ahead_count integer not null,
    rebuilt_at timestamptz not null default now(),
    primary key (tenant_id, brand_id, business_date, run_mode, ai_platform_id, competitor_id)
) with (fillfactor = 80);

create table monitoring_competitor_daily (
    tenant_id bigint not null,
    brand_id bigint not null references brands on delete cascade,
    business_date date not null,
    run_mode text not null,
    competitor_id bigint not null,
    competitor_name text not null,
    expected_count integer not null,
    collected_count integer not null,
    failed_count integer not null,
    missing_count integer not null,
    mentioned_count integer not null,
    mention_count integer not null,
    first_count integer not null,
    position_sum integer not null,
    positioned_count integer not null,
    together_count integer not null,
    ahead_count integer not null,
    rebuilt_at timestamptz not null default now(),
    primary key (tenant_id, brand_id, business_date, run_mode, competitor_id)
) with (fillfactor = 80);

-- Pages and sites that answers cite. How complete the day is stands once, in monitoring_brand_daily, and the views beside them
-- show it in each row: written into thousands of rows it would change every one of them with every answer.
create table citation_page_days (
    tenant_id bigint not null,
    brand_id bigint not null references brands on delete cascade,
    business_date date not null,
    run_mode text not null,
    citation_hash text not null,
    owner text not null,
    normalized_url text,
    domain text,
    site_name text,
    title text,
    -- Answers that cite the page: in one of them it counts once.
    citation_count integer not null,
    rebuilt_at timestamptz not null default now(),
    primary key (tenant_id, brand_id, business_date, run_mode, citation_hash, owner)
) with (fillfactor = 80);

create table citation_source_days (
    tenant_id bigint not null,
    brand_id bigint not null references brands on delete cascade,
    business_date date not null,
    run_mode text not null,
    -- The registrable domain, else the site's name; empty where a citation hides both.
    source text not null,
    owner text not null,
    domain text,
    site_name text,
    citation_count integer not null,
    answer_count integer not null,
    page_count integer not null,
    rebuilt_at timestamptz not null default now(),
    primary key (tenant_id, brand_id, business_date, run_mode, source, owner)
) with (fillfactor = 80);

create view monitoring_citation_page_daily as
select c.tenant_id, c.brand_id, c.business_date, c.run_mode, c.citation_hash, c.owner, c.normalized_url, c.domain, c.site_name,
    c.title, b.citation_expected_count as expected_count, b.citation_collected_count as collected_count,
    b.citation_failed_count as failed_count, b.citation_missing_count as missing_count, c.citation_count, c.rebuilt_at
from citation_page_days c
join monitoring_brand_daily b using (tenant_id, brand_id, business_date, run_mode);

create view monitoring_citation_source_daily as
select c.tenant_id, c.brand_id, c.business_date, c.run_mode, c.source, c.owner, c.domain, c.site_name,
    b.citation_expected_count as expected_count, b.citation_collected_count as collected_count,
    b.citation_failed_count as failed_count, b.citation_missing_count as missing_count, c.citation_count, c.answer_count,
    c.page_count, c.rebuilt_at
from citation_source_days c
join monitoring_brand_daily b using (tenant_id, brand_id, business_date, run_mode);

-- What answers say of the brand needs a judge model; until one is configured there are only the counts.
create table monitoring_brand_impression (
    tenant_id bigint not null,
    brand_id bigint not null references brands on delete cascade,
    business_date date not null,
    run_mode text not null,
    status text not null check (status in ('not_configured', 'judged')),
    expected_count integer not null,
    collected_count integer not null,
    failed_count integer not null,
    missing_count integer not null,
    -- [{term, polarity, count}]
    terms jsonb not null,
    rebuilt_at timestamptz not null default now(),
    primary key (tenant_id, brand_id, business_date, run_mode)
) with (fillfactor = 80);

-- The last rebuild of a brand-day: as of when its rows are, what it cost, and until when it rests. Beside the queue, whose
-- row is gone once the day is built.
create table projection_rebuilds (
    tenant_id bigint not null,
    brand_id bigint not null references brands on delete cascade,
    business_date date not null,
    rebuilt_at timestamptz not null,
    took_ms double precision not null,
    changed_rows integer not null,
    rest_until timestamptz not null,
    primary key (tenant_id, brand_id, business_date)
) with (fillfactor = 50);

-- When the last try of a mark failed.
alter table projection_rebuild_queue add column failed_at timestamptz;
