-- name: insert_outbox
-- One statement for any number of effects, so a transaction pays one round trip.
insert into outbox (channel, kind, key, payload, tenant_id, client_id)
select * from unnest($1::text[], $2::text[], $3::text[], $4::jsonb[], $5::bigint[], $6::uuid[])

-- name: take_undelivered
-- By undelivered rows and never by a cursor on the id: a lower id may commit after a higher one. A row of a client
-- waits behind an earlier one that was put off, so that the client's order is kept.
with held as materialized (
    select client_id, min(id) as id
    from outbox
    where channel = $1 and delivered_at is null and not_before > now() and client_id is not null
    group by client_id
)
select o.id, o.kind, o.key, o.payload, o.tenant_id, o.client_id, o.tries
from outbox o
where o.channel = $1 and o.delivered_at is null and o.not_before <= now()
  and not exists (select from held h where h.client_id = o.client_id and h.id < o.id)
order by o.id
limit $2

-- name: mark_delivered
-- The pump has checked its epoch in the same transaction: one that was frozen past its lease marks nothing.
update outbox o
set delivered_at = now(), outcome = d.outcome
from unnest($1::bigint[], $2::text[]) as d(id, outcome)
where o.id = d.id and o.delivered_at is null

-- name: postpone
-- A try that failed: later again, with a bounded back-off.
update outbox
set tries = tries + 1, not_before = now() + least(interval '10 seconds', interval '200 milliseconds' * power(2, least(tries, 6)))
where id = any($1::bigint[]) and delivered_at is null

-- name: defer
-- Not a failed try: a signal that would be the second within its second waits for its turn.
update outbox o
set not_before = now() + d.seconds * interval '1 second'
from unnest($1::bigint[], $2::float8[]) as d(id, seconds)
where o.id = d.id and o.delivered_at is null
