-- name: lock_quota
-- Coordinators take blocks one after the other: what one counts is what the others have committed. A statement of its own,
-- before the counts that rely on it.
select pg_advisory_xact_lock(hashtextextended('giveway:quota', 0))

-- name: await_spending
-- A round that began in time may use its block up after the block has expired: until it ends nobody counts it as unused.
-- Who spends one never waits for `lock_quota`.
select from dispatch_quota
where shard <> $1 and expires_at <= now() and (scheduled_permits > 0 or high_permits > 0)
order by shard
for no key update

-- name: read_quota
-- What the sliding minute has had, and the permits that other coordinators hold and have not used.
select coalesce(sum(l.scheduled), 0)::int as used_scheduled, coalesce(sum(l.high), 0)::int as used_high,
    (select coalesce(sum(q.scheduled_permits), 0)::int from dispatch_quota q where q.shard <> $1 and q.expires_at > now())
        as others_scheduled,
    (select coalesce(sum(q.high_permits), 0)::int from dispatch_quota q where q.shard <> $1 and q.expires_at > now())
        as others_high,
    exists (select from dispatch_quota q where q.shard <> $1 and q.normal_waits and q.expires_at > now()) as others_wait
from dispatch_ledger l
where l.at > now() - interval '60 seconds'

-- name: take_block
-- Replaces what the coordinator held; one that was replaced itself takes nothing.
insert into dispatch_quota as q (shard, epoch, scheduled_permits, high_permits, normal_waits, expires_at)
values ($1, $2, $3, $4, $6, now() + make_interval(secs => $5))
on conflict (shard) do update
set epoch = $2, scheduled_permits = $3, high_permits = $4, normal_waits = $6, expires_at = excluded.expires_at
where q.epoch <= $2

-- name: read_permits
-- What it holds now; locked, so that what a round counts on is there when it spends it. Expired: nothing.
select scheduled_permits, high_permits from dispatch_quota
where shard = $1 and epoch = $2 and expires_at > now()
for no key update

-- name: spend
-- In the transaction that dispatches: a permit becomes a row of the window.
update dispatch_quota
set scheduled_permits = scheduled_permits - $3, high_permits = high_permits - $4
where shard = $1 and epoch = $2 and scheduled_permits >= $3 and high_permits >= $4
