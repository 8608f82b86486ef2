-- name: claim_mark
-- The oldest due mark, taken for 5 s by moving not_before: no lock is held while the rebuild runs, so ingest never
-- waits for it. The version read here decides later whether the mark may go. A day that was just rebuilt rests, but not
-- when a request for it has had its first result since: a person is looking.
update projection_rebuild_queue q
set not_before = now() + interval '5 seconds'
where (q.tenant_id, q.brand_id, q.business_date) in (
    select m.tenant_id, m.brand_id, m.business_date from projection_rebuild_queue m
    where m.not_before <= now()
      and not exists (
        select from projection_rebuilds b
        where b.tenant_id = m.tenant_id and b.brand_id = m.brand_id and b.business_date = m.business_date
          and b.rest_until > now()
          and not exists (
            select from monitoring_collect_requests r
            where r.tenant_id = m.tenant_id and r.created_at > now() - interval '1 hour'
              and r.brand_id = m.brand_id and r.business_date = m.business_date
              -- By the clock of the transaction that wrote it, which the rebuild may have overtaken.
              and r.first_result_at > b.rebuilt_at - interval '250 milliseconds'))
    order by m.marked_at
    limit 1
    for update of m skip locked)
returning q.tenant_id, q.brand_id, q.business_date, q.version, q.tries

-- name: one_snapshot
-- Ten statements read the same facts, or the tables would disagree about a result that comes in between.
set transaction isolation level repeatable read

-- name: note_rebuild
-- Rest for $5 times what the rebuild took, within bounds in milliseconds: however large the day, it takes a bounded part of
-- the machine. now() is when the facts were read.
insert into projection_rebuilds as b (tenant_id, brand_id, business_date, rebuilt_at, took_ms, changed_rows, rest_until)
select $1, $2, $3, now(), t.ms, $4,
    clock_timestamp() + make_interval(secs => least(greatest(t.ms * $5::float8, $6::float8), $7::float8) / 1000)
from (select extract(epoch from clock_timestamp() - now())::float8 * 1000 as ms) t
on conflict (tenant_id, brand_id, business_date) do update
set rebuilt_at = excluded.rebuilt_at, took_ms = excluded.took_ms, changed_rows = excluded.changed_rows,
    rest_until = excluded.rest_until

-- name: drop_mark
-- Only at the version that was rebuilt: a result that came meanwhile has raised it, and its mark stays.
delete from projection_rebuild_queue where tenant_id = $1 and brand_id = $2 and business_date = $3 and version = $4

-- name: keep_mark
-- Marked again meanwhile. What it waits for came after the rebuild had read the facts.
update projection_rebuild_queue q
set not_before = now(), tries = 0, last_error = null, failed_at = null, marked_at = greatest(q.marked_at, b.rebuilt_at)
from projection_rebuilds b
where q.tenant_id = $1 and q.brand_id = $2 and q.business_date = $3 and q.version <> $4
  and b.tenant_id = $1 and b.brand_id = $2 and b.business_date = $3

-- name: postpone_mark
-- A rebuild that failed waits longer each time, and keeps its age; after the last try it is parked, visible with its
-- error, until new data or an operator marks it again.
update projection_rebuild_queue
set tries = tries + 1, last_error = $4, failed_at = now(),
    not_before = case when tries + 1 >= $5 then 'infinity'
                      else now() + least(interval '5 minutes', interval '1 second' * power(2, tries)) end
where tenant_id = $1 and brand_id = $2 and business_date = $3

-- name: mark_day
-- The same mark that a result sets, for one brand-day: backfill and operators.
insert into projection_rebuild_queue as q (tenant_id, brand_id, business_date) values ($1, $2, $3)
on conflict (tenant_id, brand_id, business_date) do update
set version = q.version + 1, tries = 0, not_before = now()

-- name: mark_brand
-- Every day that the brand has rows of, the newest first and one a second: what comes in just now goes before. A day that
-- waits already keeps its turn. Locked by date, as results mark them.
insert into projection_rebuild_queue as q (tenant_id, brand_id, business_date, marked_at, not_before)
select $1, $2, d.business_date, d.due, d.due
from (
    select b.business_date, now() + interval '1 second' * (row_number() over (order by b.business_date desc) - 1) as due
    from (select distinct business_date from monitoring_brand_daily where tenant_id = $1 and brand_id = $2) b
) d
order by d.business_date
on conflict (tenant_id, brand_id, business_date) do update
set version = q.version + 1,
    tries = case when q.not_before = 'infinity' then 0 else q.tries end,
    not_before = case when q.not_before = 'infinity' then excluded.not_before else q.not_before end

-- name: mark_wording
-- Where the question is still to be answered, and where its collectors were asked in different texts. A finished day in one
-- wording stays what it was.
insert into projection_rebuild_queue as q (tenant_id, brand_id, business_date)
select distinct $1::bigint, $2::bigint, t.business_date
from (
    select t.business_date, t.status in ('pending', 'leased', 'received') as is_open,
        min(t.question_version_id) over unit <> max(t.question_version_id) over unit as differs
    from monitoring_collect_tasks t
    where t.tenant_id = $1 and t.brand_id = $2 and t.question_id = $3
    window unit as (partition by t.ai_platform_id, t.run_mode, t.business_date)
) t
where t.is_open or t.differs
order by t.business_date
on conflict (tenant_id, brand_id, business_date) do update
set version = q.version + 1,
    tries = case when q.not_before = 'infinity' then 0 else q.tries end,
    not_before = case when q.not_before = 'infinity' then now() else q.not_before end

-- name: mark_unbuilt
-- Days that were last built before there were ten tables: as above, all brands' in one row.
insert into projection_rebuild_queue (tenant_id, brand_id, business_date, marked_at, not_before)
select d.tenant_id, d.brand_id, d.business_date, d.due, d.due
from (
    select b.tenant_id, b.brand_id, b.business_date,
        now() + interval '1 second' * (row_number() over (order by b.business_date desc) - 1) as due
    from (select distinct tenant_id, brand_id, business_date from monitoring_brand_daily) b
    where not exists (
        select from projection_rebuilds p
        where p.tenant_id = b.tenant_id and p.brand_id = b.brand_id and p.business_date = b.business_date)
) d
on conflict do nothing

-- name: parked_marks
-- The projections' dead letters, the oldest first.
select tenant_id, brand_id, business_date, tries, marked_at, failed_at, last_error
from projection_rebuild_queue
where not_before = 'infinity'
order by marked_at, tenant_id, brand_id, business_date
limit $1

-- name: replay_mark
-- Only one that is parked: another is on its way already.
update projection_rebuild_queue
set version = version + 1, tries = 0, not_before = now()
where tenant_id = $1 and brand_id = $2 and business_date = $3 and not_before = 'infinity'
returning version
