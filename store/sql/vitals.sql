-- name: read_residents
-- Every resident that ever took its lease, and how long ago it did last. Empty where nothing was migrated yet.
select name, extract(epoch from now() - taken_at)::float8 as taken_seconds from resident_leases order by name

-- name: is_migrated
select to_regclass('resident_leases') is not null
