-- name: list_requests
-- Every tenant's requests, the newest first; open ones by their own index.
select r.id, r.tenant_id, r.workspace_id, r.brand_id, r.requested_by_user_id, r.target_client_id, r.status, r.status_reason,
    r.hint, r.preempt, r.requested_task_count, r.dispatched_task_count, r.completed_task_count, r.failed_task_count,
    r.moved_task_count, r.interrupt_requested_count, r.interrupt_settled_count, r.interrupt_timed_out_count,
    r.interrupt_generation, r.created_at, r.first_dispatched_at, r.first_result_at, r.finished_at, r.ttl_expires_at,
    r.hard_deadline
from monitoring_collect_requests r
where ($1::uuid is null or r.id < $1) and ($2::bigint is null or r.tenant_id = $2)
  and (not $3::boolean or r.status in ('accepted', 'dispatching', 'running'))
order by r.id desc
limit $4

-- name: list_batches
-- Every tenant's batches, the newest first.
select b.id, b.tenant_id, b.brand_id, b.plan_id, b.business_date, b.slot, b.status, b.workflow_id, b.scheduled_for,
    b.cut_off_at, b.skipped_slots, b.expected_count, b.completed_count, b.failed_count, b.skipped_count, b.expired_count,
    b.backfill_of, b.paused_at, b.started_at, b.finished_at
from scheduled_batches b
where ($1::bigint is null or b.id < $1) and ($2::bigint is null or b.tenant_id = $2)
  and (not $3::boolean or b.status in ('planned', 'running', 'paused', 'cancelling'))
order by b.id desc
limit $4

-- name: list_residents
-- One row a role and shard: as many as the installation was configured with.
select name, epoch, holder, taken_at from resident_leases order by name

-- name: list_audit
-- The newest first; by the index of the tenant, of the action, or by id.
select e.id, e.tenant_id, e.actor, e.action, e.subject, e.detail, e.at from audit_events e
where ($1::bigint is null or e.id < $1) and ($2::bigint is null or e.tenant_id = $2) and ($3::text is null or e.action = $3)
order by e.id desc
limit $4

-- name: list_pauses
-- Everything that gets no new work, of all four kinds; bounded.
select * from (
    select 'lane' as kind, l.lane as key, l.lane as name
    from dispatch_settings s cross join lateral jsonb_array_elements_text(s.value) as l(lane)
    where s.key = 'paused_lanes' and jsonb_typeof(s.value) = 'array'
    union all
    select 'platform', p.id, p.name from ai_platforms p join platform_settings s on s.platform_id = p.id where s.paused
    union all
    select 'tenant', n.id::text, n.name from tenants n where n.paused
    union all
    select 'client', c.id::text, c.name from desktop_clients c where c.paused and c.revoked_at is null
) p
order by kind, key
limit $1
