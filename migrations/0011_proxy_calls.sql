-- 2-desktop §2.1: HTTP calls that a page of a desktop's browser makes for the server. The rows are the truth; frames to and
-- from the desktop may be lost.
create table desktop_proxy_calls (
    id uuid primary key,
    tenant_id bigint not null references tenants,
    client_id uuid not null references desktop_clients on delete cascade,
    platform text not null,
    -- {task_id, method, url, headers, body, page_url}: the fields of a `proxy_request` frame.
    request jsonb not null,
    state text not null default 'waiting' check (state in ('waiting', 'answered', 'expired')),
    -- Nobody is asked, and no answer is taken, after it.
    deadline timestamptz not null,
    -- {status, headers, body, error, message}: as the desktop sent it, and so as trustworthy as any text from there.
    answer jsonb,
    answered_at timestamptz,
    created_at timestamptz not null default now()
);
-- What a desktop is to be asked: looked at in every snapshot.
create index desktop_proxy_calls_of_client on desktop_proxy_calls (client_id) where state = 'waiting';
-- What the sweeper ends, and what it deletes.
create index desktop_proxy_calls_waiting on desktop_proxy_calls (deadline) where state = 'waiting';
create index desktop_proxy_calls_over on desktop_proxy_calls (deadline) where state <> 'waiting';
