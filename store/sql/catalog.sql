-- name: create_brand
-- Only into a workspace of the tenant that the token opens: another's is as good as missing.
insert into brands (tenant_id, workspace_id, name, aliases, domains)
select w.tenant_id, w.id, $4, $5, $6 from workspaces w
where w.tenant_id = $1 and w.id = any($2::bigint[]) and w.id = $3
returning id, workspace_id, name, aliases, domains, created_at, updated_at

-- name: list_brands
-- By id, which never changes, so that pages neither skip nor repeat.
select id, workspace_id, name, aliases, domains, created_at, updated_at
from brands where tenant_id = $1 and workspace_id = any($2::bigint[]) and id > $3
order by id limit $4

-- name: read_brand
-- The gate of every route under a brand.
select id, workspace_id, name, aliases, domains, created_at, updated_at
from brands where tenant_id = $1 and workspace_id = any($2::bigint[]) and id = $3

-- name: lock_brand
-- Two changes of different fields at once must not undo each other.
select from brands where tenant_id = $1 and id = $2 for no key update

-- name: change_brand
-- All columns, merged by the caller in the same transaction.
update brands set name = $3, aliases = $4, domains = $5, updated_at = now()
where tenant_id = $1 and id = $2
returning id, workspace_id, name, aliases, domains, created_at, updated_at

-- name: create_competitor
-- Through the brand, so that one out of reach inserts nothing.
insert into competitors (tenant_id, brand_id, name, aliases, domains)
select b.tenant_id, b.id, $4, $5, $6 from brands b
where b.tenant_id = $1 and b.workspace_id = any($2::bigint[]) and b.id = $3
returning id, brand_id, name, aliases, domains, created_at

-- name: list_competitors
-- The brand has been checked.
select id, brand_id, name, aliases, domains, created_at
from competitors where tenant_id = $1 and brand_id = $2 and id > $3 order by id limit $4

-- name: delete_competitor
-- Through the brand, as above.
delete from competitors c using brands b
where b.tenant_id = $1 and b.workspace_id = any($2::bigint[]) and b.id = $3
  and c.tenant_id = $1 and c.brand_id = b.id and c.id = $4
returning c.id

-- name: create_topic
-- Through the brand, as above.
insert into topics (tenant_id, brand_id, name)
select b.tenant_id, b.id, $4 from brands b
where b.tenant_id = $1 and b.workspace_id = any($2::bigint[]) and b.id = $3
returning id, brand_id, name

-- name: list_topics
-- The brand has been checked.
select id, brand_id, name from topics where tenant_id = $1 and brand_id = $2 and id > $3 order by id limit $4

-- name: create_keyword
-- Brand and topic have been checked in this transaction.
insert into keywords (tenant_id, brand_id, text, topic_id) values ($1, $2, $3, $4) returning id, brand_id, text, topic_id

-- name: list_keywords
-- The brand has been checked.
select id, brand_id, text, topic_id from keywords where tenant_id = $1 and brand_id = $2 and id > $3 order by id limit $4

-- name: unknown_parents
-- What was named and is not there, by kind; foreign keys alone would take another tenant's.
select
    array(select x from unnest($3::bigint[]) x
          where not exists (select from keywords k where k.tenant_id = $1 and k.brand_id = $2 and k.id = x)) as keyword,
    array(select x from unnest($4::bigint[]) x
          where not exists (select from topics t where t.tenant_id = $1 and t.brand_id = $2 and t.id = x)) as topic,
    array(select x from unnest($5::text[]) x
          where not exists (select from ai_platforms p where p.id = x and p.enabled)) as platform

-- name: add_questions
-- Sending a list again adds nothing.
insert into questions (tenant_id, brand_id, text, keyword_id, topic_id)
select $1, $2, q.text, q.keyword_id, q.topic_id
from unnest($3::text[], $4::bigint[], $5::bigint[]) as q(text, keyword_id, topic_id)
on conflict on constraint questions_text_key do nothing
returning id

-- name: set_only_platforms
-- Only on questions just created. (Arrays of arrays of different lengths can't be unnested, hence one each.)
update questions set only_platforms = $5
where tenant_id = $1 and brand_id = $2 and id = any($3::bigint[]) and text = $4

-- name: questions_by_id
-- What the versions are made of.
select id, text from questions where tenant_id = $1 and id = any($2::bigint[])

-- name: set_versions
-- One version a text; an old text again is its old version.
with given as (
    select * from unnest($2::bigint[], $3::text[], $4::text[]) as g(question_id, text, text_hash)
), added as (
    insert into question_versions (tenant_id, question_id, text, text_hash)
    select $1, question_id, text, text_hash from given
    on conflict (question_id, text_hash) do update set text = excluded.text
    returning id, question_id
)
update questions q set current_version_id = a.id from added a where q.tenant_id = $1 and q.id = a.question_id

-- name: questions_by_text
-- New and old alike, for the answer.
select id, brand_id, keyword_id, topic_id, text, current_version_id, only_platforms, active, created_at, updated_at
from questions where tenant_id = $1 and brand_id = $2 and text = any($3::text[]) order by id

-- name: list_questions
-- The brand has been checked.
select id, brand_id, keyword_id, topic_id, text, current_version_id, only_platforms, active, created_at, updated_at
from questions where tenant_id = $1 and brand_id = $2 and id > $3 order by id limit $4

-- name: read_question
-- Through its brand's workspace.
select q.id, q.brand_id, q.keyword_id, q.topic_id, q.text, q.current_version_id, q.only_platforms, q.active,
    q.created_at, q.updated_at
from questions q join brands b on b.tenant_id = $1 and b.id = q.brand_id and b.workspace_id = any($2::bigint[])
where q.tenant_id = $1 and q.id = $3

-- name: lock_question
-- As for brands.
select from questions where tenant_id = $1 and id = $2 for no key update

-- name: change_question
-- All columns, merged by the caller in the same transaction.
update questions set text = $3, keyword_id = $4, topic_id = $5, only_platforms = $6, active = $7, updated_at = now()
where tenant_id = $1 and id = $2
