-- squawk-ignore-file ban-concurrent-index-creation-in-transaction
-- (migrations/sqlfile.py runs each statement by itself, outside a transaction)

-- A page of one tenant's desktops, and how many it has. Every heartbeat adds to every index of a desktop: no more than this.
create index concurrently if not exists desktop_clients_of_tenant on desktop_clients (tenant_id, id);

-- Histories that nobody needs any more: the sweep deletes them a month after the revocation.
create index concurrently if not exists desktop_clients_over on desktop_clients (revoked_at)
    where revoked_at is not null and event_count > 0;

-- The sweeper asks every second for the few that need it, among all that waits on ten thousand desktops: what runs nobody
-- knows how, and what waits without a lease.
create index concurrently if not exists desktop_tasks_unknown on desktop_tasks (id)
    where status = 'unknown' and kind = 'monitor';
create index concurrently if not exists desktop_tasks_unleased on desktop_tasks (id)
    where status = 'queued' and kind = 'monitor' and lease_token_hash is null;
