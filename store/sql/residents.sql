-- name: take_resident
-- Waits for a transaction of the former holder to end (its share lock), so no effect of two epochs interleaves.
insert into resident_leases as l (name, epoch, holder) values ($1, 1, $2)
on conflict (name) do update set epoch = l.epoch + 1, holder = $2, taken_at = now()
returning epoch

-- name: hold_resident
-- Share lock: nobody can take over between this check and the commit. A holder that freezes here would keep its
-- successor waiting, so the server ends a transaction of ours that is idle for long.
select epoch, set_config('idle_in_transaction_session_timeout', $3, true)
from resident_leases where name = $1 and epoch = $2
for share
