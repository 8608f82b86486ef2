-- name: lock_tenant_requests
-- Two clicks of a tenant go one after the other, so that the second sees the first as its replay. Whatever else creates
-- or moves a tenant's business tasks (materialising a batch, a late binding, an effect on a request) takes it too.
select pg_advisory_xact_lock(hashtextextended('giveway:tenant-tasks', $1))

-- name: next_generation
-- Also the tenant's row lock. One counter a tenant (1-dispatch §1.5 step 4).
update tenants set interrupt_generation = interrupt_generation + 1 where id = $1 returning interrupt_generation
