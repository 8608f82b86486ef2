-- squawk-ignore-file ban-concurrent-index-creation-in-transaction
-- (migrations/sqlfile.py runs each statement by itself, outside a transaction)

-- Live leases of the legacy path, and results on their way: as many rows as desktops have room; none on the new path.
create index concurrently if not exists collect_tasks_legacy_leases on monitoring_collect_tasks (leased_to_executor, id)
    where leased_to_executor is not null;
-- Standing offers: as many as desktops have room in their queues.
create index concurrently if not exists collect_tasks_legacy_offers on monitoring_collect_tasks (target_client_id, id)
    where legacy_offer_expires_at is not null;
-- Victims of one request, to withdraw the order with it.
create index concurrently if not exists collect_tasks_legacy_interrupts on monitoring_collect_tasks (legacy_interrupt_request_id)
    where legacy_interrupt_request_id is not null;
alter table monitoring_collect_tasks validate constraint collect_tasks_leased;
alter table monitoring_collect_tasks validate constraint collect_tasks_lease_whole;
alter table monitoring_collect_tasks validate constraint collect_tasks_executor;
alter table monitoring_collect_tasks validate constraint collect_tasks_one_truth;
