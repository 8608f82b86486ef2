-- name: take_resident
-- Waits for a transaction of the former holder to end (its share lock), so no effect of two epochs interleaves.
insert into resident_leases as l (name, epoch, holder) values ($1, 1, $2)
on conflict (name) do update set epoch = l.epoch + 1, holder = $2, taken_at = now()
returning epoch

-- name: hold_resident
-- Share lock: nobody can take over between this check and the commit.
select epoch from resident_leases where name = $1 and epoch = $2 for share
