-- name: open_call
-- A call by its asker's id: opened once, however often. No row: the client is not the tenant's, or revoked.
with client as (
    select id from desktop_clients where id = $3 and tenant_id = $2 and revoked_at is null
), opened as (
    insert into desktop_proxy_calls (id, tenant_id, client_id, platform, request, deadline)
    select $1, $2, c.id, $4, $5, now() + $6 * interval '1 millisecond' from client c
    on conflict (id) do nothing
    returning id
)
select case when exists (select from opened) then 'opened'
    when exists (select from desktop_proxy_calls p where p.id = $1 and (p.client_id, p.tenant_id) <> ($3, $2)) then 'taken'
    else 'known' end
from client

-- name: open_calls
-- What this connection is to be asked now ($4: only these of them, or all). `left_ms`: until nobody waits any more.
select p.id, p.platform, p.request, ceil(extract(epoch from p.deadline - now()) * 1000)::int as left_ms
from desktop_proxy_calls p join desktop_clients c on c.id = p.client_id
where p.client_id = $1 and p.tenant_id = $2 and c.connection_epoch = $3 and c.revoked_at is null
  and p.state = 'waiting' and p.deadline > now() and ($4::uuid[] is null or p.id = any($4))
order by p.created_at, p.id
limit $5

-- name: answer_call
-- The first answer in time counts. It wakes who waits. Two at once: the later one sees the row as it was, still waiting.
with answered as (
    update desktop_proxy_calls
    set state = 'answered', answer = $4, answered_at = now()
    where id = $1 and client_id = $2 and tenant_id = $3 and state = 'waiting' and deadline > now()
    returning id, pg_notify($5, '')
)
select case when a.id is not null then 'taken'
    when p.state = 'expired' or (p.state = 'waiting' and p.deadline <= now()) then 'late'
    else 'repeated' end
from desktop_proxy_calls p left join answered a on a.id = p.id
where p.id = $1 and p.client_id = $2 and p.tenant_id = $3

-- name: refuse_calls
-- By the server itself, for a desktop that cannot be asked; not in the name of a connection that was replaced.
with refused as (
    update desktop_proxy_calls p
    set state = 'answered', answer = $5, answered_at = now()
    from desktop_clients c
    where c.id = p.client_id and p.client_id = $1 and p.tenant_id = $2 and c.connection_epoch = $3 and p.id = any($4::uuid[])
      and p.state = 'waiting' and p.deadline > now()
    returning p.id
)
select pg_notify($6, '') where exists (select from refused)

-- name: read_call
-- `left`: seconds until the deadline.
select state, answer, extract(epoch from deadline - now())::float8 as left
from desktop_proxy_calls where id = $1

-- name: expire_call
-- Its asker has waited long enough.
update desktop_proxy_calls set state = 'expired' where id = $1 and state = 'waiting' and deadline <= now()

-- name: sweep_calls
-- Calls whose asker is gone end too; what is over is kept for a day, for who looks into a failure.
with due as (
    select id from desktop_proxy_calls
    where state = 'waiting' and deadline <= now()
    order by deadline
    limit $1
    for update skip locked
), expired as (
    update desktop_proxy_calls p set state = 'expired' from due d where p.id = d.id returning p.id
), old as (
    select id from desktop_proxy_calls
    where state <> 'waiting' and deadline < now() - interval '1 day'
    order by deadline
    limit $1
    for update skip locked
), gone as (
    delete from desktop_proxy_calls p using old o where p.id = o.id returning p.id
)
select (select count(*) from expired) + (select count(*) from gone)
