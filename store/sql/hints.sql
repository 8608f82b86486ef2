-- name: judge_platforms
-- `waiting_for_platform` (1-dispatch §1.3): a waiting task of the request is on a platform that is full, and everything that
-- holds it is another request's or nobody's work on another client than the one the task is bound to: nothing there gives
-- way for it. Taken away as soon as it is not so. Another hint knows better why nothing moves. $4: over all tenants.
with limits as (
    select * from unnest($2::text[], $3::int[]) as l(platform, most)
), waiting as (
    select distinct t.collect_request_id, t.tenant_id, t.ai_platform_id, t.target_client_id, l.most
    from monitoring_collect_tasks t join limits l on l.platform = t.ai_platform_id
    where t.collect_request_id = any($1::uuid[]) and t.status = 'pending' and t.active_task_id is null
      and t.legacy_offer_expires_at is null
), holders as (
    select d.tenant_id, d.ai_platform_id, d.target_client_id as client_id, b.collect_request_id
    from desktop_tasks d join monitoring_collect_tasks b on b.id = d.monitor_task_id
    where d.kind = 'monitor' and d.status in ('queued', 'in_progress', 'unknown') and d.result_received_at is null
      and ($4::boolean or d.tenant_id = any(array(select tenant_id from waiting)))
    union all
    select t.tenant_id, t.ai_platform_id, t.leased_to_executor, t.collect_request_id from monitoring_collect_tasks t
    where t.leased_to_executor is not null and t.status = 'leased'
      and ($4::boolean or t.tenant_id = any(array(select tenant_id from waiting)))
), blocked as (
    select distinct w.collect_request_id as id
    from waiting w
    cross join lateral (
        select count(*) as held,
            count(*) filter (where h.client_id = w.target_client_id or h.collect_request_id = w.collect_request_id) as ours
        from holders h
        where h.ai_platform_id = w.ai_platform_id and ($4::boolean or h.tenant_id = w.tenant_id)
    ) h
    where h.held >= w.most and h.held > 0 and h.ours = 0
)
update monitoring_collect_requests r
set hint = case when b.id is not null then 'waiting_for_platform' end
from unnest($1::uuid[]) as j(id) left join blocked b on b.id = j.id
where r.id = j.id and r.status in ('accepted', 'dispatching', 'running')
  and (r.hint = 'waiting_for_platform' and b.id is null or r.hint is null and b.id is not null)

-- name: hint_of_undispatched
-- Why nothing of the request has been dispatched yet, as far as its rows say; null once something was. The platform is
-- judged before. $2: platforms on which its work may go.
select case
    when r.dispatched_task_count > 0 then null
    when r.hint is not null then r.hint
    when not exists (select from monitoring_collect_tasks t
        where t.collect_request_id = r.id and t.status = 'pending' and t.ai_platform_id = any($2::text[]))
        then 'waiting_for_resume'
    when r.target_client_id is null then 'waiting_for_client'
    else 'waiting_for_slot' end
from monitoring_collect_requests r where r.id = $1
