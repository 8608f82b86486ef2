-- name: list_batches
-- By the listing index, newest first; through the workspaces of their brands.
select s.*, f.id as backfill_id from scheduled_batches s
join brands b on b.tenant_id = $1 and b.id = s.brand_id and b.workspace_id = any($2::bigint[])
left join scheduled_batches f on f.backfill_of = s.id
where s.tenant_id = $1 and ($3::bigint is null or s.brand_id = $3) and ($4::text is null or s.status = $4)
  and ($5::bigint is null or s.id < $5)
order by s.id desc
limit $6

-- name: find_batch
-- Through the workspace of its brand; what runs and what is held is counted for this one alone.
select s.*, f.id as backfill_id, t.running_count, t.held_count from scheduled_batches s
join brands b on b.tenant_id = $1 and b.id = s.brand_id and b.workspace_id = any($2::bigint[])
left join scheduled_batches f on f.backfill_of = s.id
cross join lateral (
    select count(*) filter (where t.status <> 'pending' or t.active_task_id <> batch_hold($3))::int as running_count,
        count(*) filter (where t.active_task_id = batch_hold($3))::int as held_count
    from monitoring_collect_tasks t
    where t.batch_id = $3 and t.status in ('pending', 'leased', 'received')
) t
where s.tenant_id = $1 and s.id = $3

-- name: list_all_batches
-- For operators, who see every tenant.
select s.*, f.id as backfill_id from scheduled_batches s
left join scheduled_batches f on f.backfill_of = s.id
where ($1::bigint is null or s.tenant_id = $1) and ($2::text is null or s.status = $2) and ($3::bigint is null or s.id < $3)
order by s.id desc
limit $4

-- name: find_any_batch
-- The same for operators.
select s.*, f.id as backfill_id, t.running_count, t.held_count from scheduled_batches s
left join scheduled_batches f on f.backfill_of = s.id
cross join lateral (
    select count(*) filter (where t.status <> 'pending' or t.active_task_id <> batch_hold($1))::int as running_count,
        count(*) filter (where t.active_task_id = batch_hold($1))::int as held_count
    from monitoring_collect_tasks t
    where t.batch_id = $1 and t.status in ('pending', 'leased', 'received')
) t
where s.id = $1

-- name: list_all_plans
-- For operators, by id.
select * from monitoring_plans where ($1::bigint is null or tenant_id = $1) and id > $2 order by id limit $3

-- name: find_any_plan
select id, tenant_id, workspace_id, brand_id, name, active from monitoring_plans where id = $1

-- name: newest_batch_of_plan
-- A plan has a brand, and a brand a few batches a day: by the listing index from the newest.
select s.* from scheduled_batches s
join monitoring_plans p on p.id = $1 and p.tenant_id = s.tenant_id
where s.plan_id = $1 and s.id > $2 and s.backfill_of is null
order by s.id desc
limit 1
