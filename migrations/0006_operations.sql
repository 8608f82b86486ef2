-- 6-operations: optimistic versions of what operators change.

-- Raised by every change of the tenant's operational settings (weight, minute budget, pause): the ETag of the ops API.
alter table tenants add column settings_version bigint not null default 1;

-- The same of a desktop's (limits, pause). Its `version` is the program's.
alter table desktop_clients add column settings_version bigint not null default 1;

-- An operator has set `max_concurrent`: what the desktop says of itself at its next hello does not change it.
alter table desktop_clients add column slots_pinned boolean not null default false;
