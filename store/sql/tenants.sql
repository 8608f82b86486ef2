-- name: create_tenant
-- All three or none.
with tenant as (
    insert into tenants (name, dispatch_per_minute) values ($1, $3) returning id
), workspace as (
    insert into workspaces (tenant_id, name) select id, $1 from tenant returning id, tenant_id
), audited as (
    insert into audit_events (tenant_id, actor, action, subject) select id, $2, 'tenant_created', $1 from tenant
)
select tenant_id, id as workspace_id from workspace

-- name: ensure_platforms
insert into ai_platforms (id, name, supports_search_grounded, supports_citation)
select x, initcap(x), true, true from unnest($1::text[]) x
on conflict do nothing
