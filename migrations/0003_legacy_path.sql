-- 1-dispatch §1.7: the legacy path. The coordinator offers (`target_client_id`, `last_dispatched_at`), a pull takes offers.

alter table monitoring_collect_tasks
    -- When it was last offered. Stays after the offer is taken.
    add column legacy_offered_at timestamptz,
    -- On offer to `target_client_id` until then; null: not on offer.
    add column legacy_offer_expires_at timestamptz,
    -- The request whose accept asked the leased task to stop, while nothing has come of it. Advice: the desktop decides.
    add column legacy_interrupt_request_id uuid;

-- The status write matrix of dispatch §7.1, completed: a lease is whole, only a leased task has one, and no lease outlives
-- its task. `received` remembers whose result it waits for. Validated outside this transaction (0003_…_indexes.sql).
alter table monitoring_collect_tasks
    add constraint collect_tasks_leased check ((status = 'leased') = (lease_token_hash is not null)) not valid,
    add constraint collect_tasks_lease_whole check (case when lease_token_hash is null then lease_expires_at is null
        else num_nonnulls(lease_expires_at, leased_to_executor, leased_at) = 3 end) not valid,
    add constraint collect_tasks_executor check (leased_to_executor is null or status in ('leased', 'received')) not valid,
    -- One truth about the execution: only a legacy task is offered, or told to stop without an execution task.
    add constraint collect_tasks_one_truth check (execution_owner = 'legacy'
        or legacy_offer_expires_at is null and legacy_interrupt_request_id is null) not valid;

-- As in 0001, with legacy leases: they keep a desktop as busy as execution tasks do.
create or replace view available_desktops as
select c.*, n.interrupt_generation, n.dispatch_per_minute, l.busy, coalesce(a.abort_rate, 0)::float8 as abort_rate
from online_clients c
join tenants n on n.id = c.tenant_id
cross join lateral (
    select (
        (select count(*) from desktop_tasks d
         where d.target_client_id = c.id and d.status in ('in_progress', 'unknown') and d.kind = 'monitor'
           and d.result_received_at is null)
        + (select count(*) from monitoring_collect_tasks t
           where t.leased_to_executor = c.id and t.leased_to_executor is not null and t.status = 'leased'))::int as busy
) l
left join lateral (
    select avg((x.outcome in ('returned', 'lease_expired', 'revoked'))::int) as abort_rate
    from desktop_task_attempts x where x.client_id = c.id and x.ended_at > now() - interval '1 minute'
) a on true;
