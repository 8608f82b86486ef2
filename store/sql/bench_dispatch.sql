-- name: seed_tenants
-- Tenants with a workspace, a brand, a plan and today's batch each ($1: how many, $2: platforms).
with made as (
    insert into tenants (name) select 'bench ' || n from generate_series(1, $1::int) n returning id, name
), spaces as (
    insert into workspaces (tenant_id, name) select id, 'main' from made returning id, tenant_id
), brands_made as (
    insert into brands (tenant_id, workspace_id, name) select tenant_id, id, 'brand' from spaces
    returning id, tenant_id, workspace_id
), plans as (
    insert into monitoring_plans (tenant_id, workspace_id, brand_id, name, cadence, platforms)
    select tenant_id, workspace_id, id, 'daily', '0 6 * * *', $2::text[] from brands_made
    returning id, tenant_id, brand_id
)
insert into scheduled_batches (tenant_id, brand_id, plan_id, business_date, slot, run_mode, collector_type, workflow_id, status,
    scheduled_for, cut_off_at)
select tenant_id, brand_id, id, current_date, 'bench', 'api_standard', 'desktop', 'bench/' || tenant_id, 'running', now(),
    now() + interval '1 day'
from plans

-- name: seed_clients
-- $1 desktops a workspace, online for as long as a benchmark takes.
insert into desktop_clients (id, tenant_id, workspace_id, user_id, name, token_hash, online, connection_epoch,
    last_heartbeat_at)
select gen_random_uuid(), w.tenant_id, w.id, 1, 'desktop ' || n, sha256((w.id || ':' || n)::bytea), true, 1,
    now() + interval '1 day'
from workspaces w cross join generate_series(1, $1::int) n

-- name: seed_backlog
-- Pending normal tasks of the tenants' batches: $2 to $3 are the numbers of each tenant's questions, $1 the platforms.
with asked as (
    insert into questions (tenant_id, brand_id, text)
    select b.tenant_id, b.id, 'question ' || n from brands b cross join generate_series($2::int, $3::int) n
    returning id, tenant_id, brand_id, text
), versions as (
    insert into question_versions (tenant_id, question_id, text, text_hash)
    select tenant_id, id, text, md5(text) from asked
    returning id, question_id
)
insert into monitoring_collect_tasks (tenant_id, workspace_id, brand_id, question_id, question_version_id, ai_platform_id,
    collector_type, run_mode, business_date, batch_id, trigger_source, ingest_shard_key)
select a.tenant_id, b.workspace_id, a.brand_id, a.id, v.id, p, 'desktop', 'api_standard', current_date, s.id, 'automatic',
    a.tenant_id || ':' || a.brand_id || ':' || current_date
from asked a
join versions v on v.question_id = a.id
join brands b on b.id = a.brand_id
join scheduled_batches s on s.brand_id = a.brand_id
cross join unnest($1::text[]) p

-- name: seed_running
-- What the fleet does meanwhile: each desktop runs one task that does not end, so that live work is counted in each round.
with clients as (
    select id, tenant_id, row_number() over (partition by tenant_id order by id) as place from desktop_clients
), tasks as (
    select id, tenant_id, ai_platform_id, row_number() over (partition by tenant_id order by id) as place
    from monitoring_collect_tasks
), chosen as (
    select c.id as client_id, c.tenant_id, t.id as task_id, t.ai_platform_id
    from clients c join tasks t using (tenant_id, place)
), running as (
    insert into desktop_tasks (id, tenant_id, monitor_task_id, target_client_id, ai_platform_id, status, priority, lane, source,
        started_at)
    select gen_random_uuid(), tenant_id, task_id, client_id, ai_platform_id, 'in_progress', 100, 'normal', 'daily_schedule', now()
    from chosen returning id, monitor_task_id
)
update monitoring_collect_tasks t set active_task_id = r.id from running r where t.id = r.monitor_task_id

-- name: finish_queued
-- The desktops have done it all and the next day asks for it again: the backlog keeps its size. Not part of a round.
with done as (
    update desktop_tasks set status = 'succeeded', started_at = now(), finished_at = now() where status = 'queued'
    returning monitor_task_id
), delivered as (
    update outbox set delivered_at = now(), outcome = 'delivered' where delivered_at is null
)
update monitoring_collect_tasks t set active_task_id = null, enqueued_at = clock_timestamp(), last_dispatched_at = now()
from done d where t.id = d.monitor_task_id

-- name: count_dispatched
select count(*)::int as tasks, (select count(*)::int from outbox where delivered_at is null) as announced,
    (select coalesce(sum(scheduled + high), 0)::int from dispatch_ledger) as counted
from desktop_tasks where status = 'queued'

-- name: bare_queue
-- The least that a queue in PostgreSQL can be.
create table bench_queue (id bigint generated always as identity primary key, payload text not null, taken_at timestamptz)

-- name: bare_index
create index on bench_queue (id) where taken_at is null

-- name: fill_bare_queue
insert into bench_queue (payload) select repeat('x', 100) from generate_series(1, $1::int)

-- name: bare_claim
-- One SKIP LOCKED claim of a batch, and nothing else.
with head as (
    select id from bench_queue where taken_at is null order by id limit $1 for update skip locked
)
update bench_queue q set taken_at = now() from head h where q.id = h.id
returning q.id
