-- name: find_task
-- Whose it is; the rows are locked after that, in the common order.
select tenant_id, target_client_id from desktop_tasks where id = $1 and kind = 'monitor'

-- name: revoke
-- As at an interrupt's hard timeout: the lease is over and the slot free; unknown until the desktop says what became of
-- it, or a lease's length has passed.
with revoked as (
    update desktop_tasks
    set status = 'unknown', lease_token_hash = null, lease_expires_at = now(), updated_at = now(),
        interrupt_reason = 'force_released',
        control_flags = control_flags || '{"force_released": true}'
    where id = $1 and status = 'in_progress' and result_received_at is null
    returning id, tenant_id, target_client_id, lane, interrupt_reason, interrupt_generation, attempt_id
), closed as (
    update desktop_task_attempts x set ended_at = now(), outcome = 'revoked'
    from revoked r where x.id = r.attempt_id and x.ended_at is null
)
select id, tenant_id, target_client_id, lane, interrupt_reason, interrupt_generation from revoked

-- name: audit
insert into audit_events (tenant_id, actor, action, subject, detail)
values ($1, $2, 'task_force_released', 'task ' || $3::uuid, jsonb_build_object('client_id', $4::uuid, 'was', $5::text))
