-- name: create_plan
-- The workspace is the brand's, read in this transaction.
insert into monitoring_plans (tenant_id, workspace_id, brand_id, name, cadence_kind, cadence, time_zone,
    business_date_rule, run_mode, collector_type, question_ids, platforms, active, next_run_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
returning *

-- name: lock_plan
-- Two changes at once must not undo each other, nor what the scan sets.
select from monitoring_plans where tenant_id = $1 and id = $2 for no key update

-- name: change_plan
-- All columns, merged by the caller in the same transaction.
update monitoring_plans
set name = $3, cadence_kind = $4, cadence = $5, time_zone = $6, business_date_rule = $7, run_mode = $8,
    collector_type = $9, question_ids = $10, platforms = $11, active = $12, next_run_at = $13, updated_at = now()
where tenant_id = $1 and id = $2
returning *

-- name: unknown_named
-- Questions must be the brand's and platforms known: a typing error must not silently narrow the plan.
select
    array(select x from unnest($3::bigint[]) x
          where not exists (select from questions q where q.tenant_id = $1 and q.brand_id = $2 and q.id = x)) as question,
    array(select x from unnest($4::text[]) x
          where not exists (select from ai_platforms p where p.id = x and p.enabled)) as platform

-- name: read_plan
-- Through the workspaces that the token opens.
select * from monitoring_plans where tenant_id = $1 and workspace_id = any($2::bigint[]) and id = $3

-- name: list_plans
-- By id, which never changes, so that pages neither skip nor repeat.
select * from monitoring_plans
where tenant_id = $1 and workspace_id = any($2::bigint[]) and ($3::bigint is null or brand_id = $3) and id > $4
order by id limit $5

-- name: run_plan_now
-- The scan finds it due and moves it on to its next regular time.
update monitoring_plans set next_run_at = now() where tenant_id = $1 and id = $2 and active returning id
