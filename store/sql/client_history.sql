-- name: note_event
-- The next in the ring of the client's hundred; its row is locked by that.
with counted as (
    update desktop_clients set event_count = event_count + 1 where id = $1
    returning id, event_count, connection_epoch, hub
)
insert into desktop_client_events (client_id, slot, number, kind, epoch, hub, close_code, detail)
select id, event_count % 100, event_count, $2, connection_epoch, hub, $3, $4 from counted
on conflict (client_id, slot) do update
set (number, kind, at, epoch, hub, close_code, detail) = (excluded.number, excluded.kind, excluded.at, excluded.epoch,
    excluded.hub, excluded.close_code, excluded.detail)

-- name: read_history
-- The newest first; at most a hundred there are.
select number, kind, at, epoch, hub, close_code, detail from desktop_client_events
where client_id = $1
order by number desc
limit $2
