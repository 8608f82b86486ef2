-- name: claim_due_plans
-- SKIP LOCKED: any number of scans may run at once.
select id, tenant_id, brand_id, run_mode, collector_type, cadence_kind, cadence, time_zone, business_date_rule, next_run_at
from monitoring_plans
where active and next_run_at <= now()
order by next_run_at
limit $1
for update skip locked

-- name: plan_batch
-- The slot's key: claimed again, it is the batch that is there.
insert into scheduled_batches (tenant_id, brand_id, plan_id, business_date, slot, run_mode, collector_type, workflow_id,
    scheduled_for, cut_off_at, skipped_slots)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
on conflict do nothing

-- name: move_plan
-- Null: never due again.
update monitoring_plans set next_run_at = $2, updated_at = now() where id = $1

-- name: find_planned
-- A page after the given id: a batch that can't be started must not hide the newer ones. The backfill of a paused batch is
-- paused before it has begun. (Open ones are found by their own small index.)
select b.id, b.tenant_id, b.brand_id, b.plan_id, b.business_date, b.slot, b.cut_off_at, b.skipped_slots,
    coalesce((select max(s.interrupt_hard_timeout_ms) from platform_settings s join monitoring_plans p on p.id = b.plan_id
              where s.platform_id = any(p.platforms)), 45000) as hard_timeout_ms
from scheduled_batches b
where (b.status = 'planned' or b.status = 'paused' and b.started_at is null) and b.id > $1
order by b.id limit $2
