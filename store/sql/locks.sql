-- name: lock_tenant_requests
-- Two clicks of a tenant go one after the other, so that the second sees the first as its replay. Whatever else creates
-- or moves a tenant's business tasks (materialising a batch, a late binding, an effect on a request) takes it too. First
-- its share of the lock of all tenants, so that one who needs everybody to wait takes one lock and not one a tenant.
select pg_advisory_xact_lock_shared(hashtextextended('giveway:all-tenants-tasks', 0)),
    pg_advisory_xact_lock(hashtextextended('giveway:tenant-tasks', $1))

-- name: lock_all_tenants
-- Whoever would create or move business tasks of any tenant has committed, or waits. One lock, because the table of locks
-- has no room for as many as an installation may have tenants.
select pg_advisory_xact_lock(hashtextextended('giveway:all-tenants-tasks', 0))

-- name: next_generation
-- Also the tenant's row lock. One counter a tenant (1-dispatch §1.5 step 4).
update tenants set interrupt_generation = interrupt_generation + 1 where id = $1 returning interrupt_generation
