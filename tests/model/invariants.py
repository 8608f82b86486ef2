"""What must hold after every step (faults.md), in a few statements over the whole database."""

import asyncio

from store.audit import check_integrity
from tests.model.orders import observe
from tests.model.state import LIVE, OPEN, Model
from tests.support.clicks import WHOLE

# Each finds nothing, ever. Named for the message.
FORBIDDEN = {
    "an open request with nothing unfinished": f"""
        select r.id::text from monitoring_collect_requests r where {OPEN} and not exists (
            select from monitoring_collect_tasks t where t.collect_request_id = r.id
                and t.status in ('pending', 'leased', 'received'))""",
    "an unfinished task of an open request outside high": f"""
        select t.id::text from monitoring_collect_tasks t
        join monitoring_collect_requests r on r.id = t.collect_request_id
        where r.{OPEN} and r.status_reason is distinct from 'cancelled' and t.status = 'pending'
          and t.dispatch_lane <> 'high'""",
    "counters over the whole": """
        select id::text from monitoring_collect_requests
        where completed_task_count + failed_task_count + returned_task_count > requested_task_count""",
    "an interrupt lost or counted twice": """
        select r.id::text from monitoring_collect_requests r
        where r.interrupt_requested_count <> r.interrupt_settled_count + r.interrupt_timed_out_count
            + r.interrupt_withdrawn_count + (select count(*) from desktop_tasks d where d.interrupt_request_id = r.id
                and d.control_flags ->> 'interrupt_requested' = 'true')""",
    "an order to stop for a request that was ended": """
        select d.id::text from desktop_tasks d join monitoring_collect_requests r on r.id = d.interrupt_request_id
        where r.status_reason in ('cancelled', 'ttl', 'hard_end') and d.result_received_at is null
          and d.status in ('in_progress', 'unknown') and d.control_flags ->> 'interrupt_requested' = 'true'""",
    "an order to stop on other than scheduled work of another request of the tenant": """
        select d.id::text from desktop_tasks d join monitoring_collect_requests r on r.id = d.interrupt_request_id
        join monitoring_collect_tasks t on t.id = d.monitor_task_id
        where d.control_flags ->> 'interrupt_requested' = 'true'
          and (d.source <> 'daily_schedule' or t.collect_request_id = r.id or r.tenant_id <> d.tenant_id)""",
    "a generation ahead of the tenant": """
        select g.id from (
            select tenant_id, id::text, interrupt_generation from desktop_tasks
            union all select tenant_id, id::text, interrupt_generation from monitoring_collect_tasks
            union all select tenant_id, id::text, greatest(interrupt_generation, accepted_generation)
                from monitoring_collect_requests
            union all select tenant_id, batch_id::text, generation from batch_yields
            union all select tenant_id, id::text, highest_generation_seen from desktop_clients
        ) g(tenant_id, id, generation) join tenants n on n.id = g.tenant_id
        where g.generation > n.interrupt_generation""",
    "a generation given to two requests": """
        select min(id::text) from monitoring_collect_requests group by tenant_id, accepted_generation
        having count(*) > 1""",
    "an order older than the desktop has had about the task": """
        select o.id::text from (select id, (payload ->> 'interrupt_generation')::bigint as generation,
            max((payload ->> 'interrupt_generation')::bigint) over (
                partition by payload ->> 'task_id', client_id order by id) as highest
            from outbox where kind = 'task_control') o where o.generation < o.highest""",
    "an interrupt on what does not run": """
        select id::text from desktop_tasks where status not in ('in_progress', 'unknown')
          and (control_flags ->> 'interrupt_requested')::boolean""",
    "two open leases on one task": """
        select monitor_task_id::text from desktop_task_attempts where ended_at is null
        group by monitor_task_id having count(*) > 1""",
    "two executions of one task": f"""
        select t.id::text from monitoring_collect_tasks t
        join desktop_tasks d on d.monitor_task_id = t.id and d.{LIVE}
        where t.status in ('leased', 'received') or t.execution_owner = 'legacy'""",
    "an execution task of another tenant": """
        select d.id::text from desktop_tasks d join desktop_clients c on c.id = d.target_client_id
        join monitoring_collect_tasks t on t.id = d.monitor_task_id
        where c.tenant_id <> d.tenant_id or t.tenant_id <> d.tenant_id""",
    "a lease of another tenant": """
        select a.id::text from desktop_task_attempts a join desktop_clients c on c.id = a.client_id
        join monitoring_collect_tasks t on t.id = a.monitor_task_id
        where c.tenant_id <> a.tenant_id or t.tenant_id <> a.tenant_id""",
    "a task bound to another tenant": """
        select t.id::text from monitoring_collect_tasks t
        left join desktop_clients c on c.id = coalesce(t.leased_to_executor, t.target_client_id)
        left join monitoring_collect_requests r on r.id = t.collect_request_id
        where c.tenant_id <> t.tenant_id or r.tenant_id <> t.tenant_id or r.brand_id <> t.brand_id""",
    "an effect for a client of another tenant": """
        select o.id::text from outbox o join desktop_clients c on c.id = o.client_id
        where o.tenant_id is not null and o.tenant_id <> c.tenant_id""",
    "a yield of another tenant": """
        select b.batch_id::text from batch_yields b join desktop_clients c on c.id = b.client_id
        where c.tenant_id <> b.tenant_id""",
    "a paused batch that waits unheld": f"""
        select t.id::text from monitoring_collect_tasks t join scheduled_batches b on b.id = t.batch_id
        where b.status = 'paused' and t.status = 'pending' and t.active_task_id is null
          and not exists (select from monitoring_collect_requests r where r.id = t.collect_request_id and r.{OPEN})""",
    "a task of a paused batch queued on a desktop": f"""
        select d.id::text from desktop_tasks d join monitoring_collect_tasks t on t.id = d.monitor_task_id
        join scheduled_batches b on b.id = t.batch_id
        where b.status = 'paused' and d.status = 'queued'
          and not exists (select from monitoring_collect_requests r where r.id = t.collect_request_id and r.{OPEN})""",
    "a running slot over the fuse": """
        select target_client_id::text from desktop_tasks
        where status = 'in_progress' and result_received_at is null group by 1 having count(*) > 4""",
    "a window over the fuse": """
        select 'cluster' from dispatch_ledger where at > now() - interval '60 seconds'
        having sum(scheduled + high) > 14""",
}
CHECK = "\nunion all\n".join(
    f"select '{name}' as rule, array_agg(id) as ids from ({statement}) found(id) having count(*) > 0"
    for name, statement in FORBIDDEN.items()
)
# What only grows: generations, rows, and how final an attempt's outcome is.
GROWING = """
select 'tenant ' || id as key, interrupt_generation as value from tenants
union all select 'task ' || id, interrupt_generation from monitoring_collect_tasks
union all select 'execution ' || id, interrupt_generation from desktop_tasks
union all select 'request ' || id, interrupt_generation from monitoring_collect_requests
union all select 'accept ' || id, accepted_generation from monitoring_collect_requests
union all select 'seen by ' || id, highest_generation_seen from desktop_clients
union all select 'attempt ' || id, case outcome when 'succeeded' then 2 when 'failed' then 1 else 0 end
    from desktop_task_attempts where ended_at is not null
union all select 'tasks', count(*) from monitoring_collect_tasks
union all select 'finished requests', count(*) from monitoring_collect_requests
    where status not in ('accepted', 'dispatching', 'running')
union all select 'finished batches', count(*) from scheduled_batches where status in ('completed', 'cancelled')
"""


async def check(model: Model) -> None:
    """Every invariant; AssertionError names the rule and the rows."""
    _, _, *integrity = await asyncio.gather(
        _forbidden(model),
        _growing(model),
        *(check_integrity(model.pool, world.tenant_id) for world in model.worlds),
    )
    await observe(model)
    assert integrity == [WHOLE] * len(model.worlds), f"not whole: {integrity}"


async def _forbidden(model: Model) -> None:
    broken = {row["rule"]: row["ids"] for row in await model.pool.fetch(CHECK)}
    assert broken == {}, f"broken: {broken}"


async def _growing(model: Model) -> None:
    now = {row["key"]: row["value"] for row in await model.pool.fetch(GROWING)}
    back = {key: (was, now.get(key)) for key, was in model.highest.items() if now.get(key, -1) < was}
    assert back == {}, f"went back: {back}"
    model.highest = now
