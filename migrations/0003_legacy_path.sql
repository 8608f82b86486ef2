-- 1-dispatch §1.7: the legacy path. The coordinator offers (`target_client_id`, `last_dispatched_at`), a pull takes offers.

alter table monitoring_collect_tasks
    -- When it was last offered: the minute windows count it. Stays after the offer is taken.
    add column legacy_offered_at timestamptz,
    -- On offer to `target_client_id` until then; null: not on offer.
    add column legacy_offer_expires_at timestamptz;
