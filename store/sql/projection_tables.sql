-- name: sync
-- Make the day's rows of one table what they should be, and touch only what differs: a result changes a handful of rows of
-- a day's thousands. A full join compares them once, whatever the planner believes about their number. Topics may be null,
-- hence `same`. Returns how many rows were written.
with fresh as materialized (
{fresh}
), compared as materialized (
    select o.place, f.wanted, {fresh_columns}
    from (select ctid as place, t.* from {table} t where tenant_id = $1 and brand_id = $2 and business_date = $3) o
    full join (select true as wanted, fresh.* from fresh) f on {same}
    where f.wanted is null or o.place is null or ({old_values}) is distinct from ({fresh_values})
), gone as (
    delete from {table} where ctid = any(array(select place from compared where wanted is null)) returning 1
), written as (
    insert into {table} (tenant_id, brand_id, business_date, {columns})
    select $1, $2, $3, {columns} from compared where wanted
    on conflict ({conflict}) do update set {changes}, rebuilt_at = now()
    returning 1
)
select (select count(*) from gone)::int + (select count(*) from written)::int

-- name: begin_rebuild
-- One rebuild of a brand-day at a time, whoever runs it; readers are not concerned. Compiling these statements would take
-- longer than running them, and a day's citations are sorted in memory.
select pg_advisory_xact_lock(hashtextextended(format('projection:%s:%s:%s', $1::bigint, $2::bigint, $3::date), 0)),
    set_config('jit', 'off', true), set_config('work_mem', '32MB', true)
