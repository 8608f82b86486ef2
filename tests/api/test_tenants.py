"""Another tenant's ids, on every route: as good as missing (faults.md)."""

from typing import Any

from fastapi import FastAPI

from api.auth import Role
from settings import Settings
from store.database import Pool
from store.raw_answers import RawAnswers
from tests.api.conftest import Login, problem_of
from tests.api.routes import operations, sound_body
from tests.support.badcases import doubtful
from tests.support.world import World

# A desktop's own calls, and those of operators over all tenants.
BY_OTHER_TOKENS = ("/api/desktop/tasks/", "/api/desktop/proxy/", "/api/ops/")
COUNTED = (
    "brands",
    "competitors",
    "topics",
    "keywords",
    "questions",
    "question_versions",
    "monitoring_plans",
    "scheduled_batches",
    "monitoring_collect_requests",
    "desktop_clients",
    "monitoring_parse_badcases",
    "monitoring_regression_cases",
)


async def everything_of(pool: Pool, world: World, raw_answers: RawAnswers) -> dict[str, Any]:
    """One of each thing that has an id in some path."""
    competitor = await pool.fetchval(
        "insert into competitors (tenant_id, brand_id, name) values ($1, $2, 'rival') returning id",
        world.tenant_id,
        world.brand_id,
    )
    return {
        "badcase_id": await doubtful(world, raw_answers),
        "brand_id": world.brand_id,
        "competitor_id": competitor,
        "question_id": (await world.question()).id,
        "plan_id": await world.plan(),
        "batch_id": await world.batch(),
        "request_id": await world.request(),
        "client_id": (await world.client()).id,
        "task_id": await world.business_task(),
    }


async def rows_of(pool: Pool) -> dict[str, list[str]]:
    return {
        table: [row["line"] for row in await pool.fetch(f"select t::text as line from {table} t order by 1")]
        for table in COUNTED
    }


async def test_another_tenants_ids_are_missing_on_every_route_and_nothing_changes(
    app: FastAPI, settings: Settings, login: Login, world: World, pool: Pool
) -> None:
    ids = await everything_of(pool, world, RawAnswers(settings.raw_store_url))
    other = await World.create(pool, "Other")
    stranger = login(other, Role.ADMIN, workspaces=[other.workspace_id, world.workspace_id])
    owner = login(world)
    before, tried = await rows_of(pool), 0
    for operation in operations(app):
        if "{" not in operation.path or operation.path.startswith(BY_OTHER_TOKENS):
            continue
        response = await stranger(operation.method, operation.filled(ids), json=sound_body(operation, other))
        assert problem_of(response, 404)["code"] == "not_found", operation
        tried += 1
    assert tried > 20
    assert await rows_of(pool) == before
    for operation in operations(app):
        # A stream ends with its request, not with its answer.
        streams = operation.id == "stream_collect_request"
        if operation.method == "GET" and operation.path.startswith("/api/tenant") and not streams:
            assert (await owner("GET", operation.filled(ids))).status_code == 200, operation


async def test_lists_hold_nothing_of_another_tenant(
    app: FastAPI, settings: Settings, login: Login, world: World, pool: Pool
) -> None:
    ids = await everything_of(pool, world, RawAnswers(settings.raw_store_url))
    other = await World.create(pool, "Other")
    await pool.execute("delete from brands where tenant_id = $1", other.tenant_id)
    stranger = login(other, Role.ADMIN, workspaces=[other.workspace_id, world.workspace_id])
    for operation in operations(app):
        if operation.path.startswith("/api/ops/"):
            continue
        is_list = operation.id.startswith("list_") and "{" not in operation.path and operation.id != "list_platforms"
        if is_list:
            assert (await stranger("GET", operation.filled(ids))).json()["items"] == [], operation


async def test_another_tenants_ids_inside_a_body_are_missing(
    settings: Settings, login: Login, world: World, pool: Pool
) -> None:
    ids = await everything_of(pool, world, RawAnswers(settings.raw_store_url))
    hanging = await pool.fetchrow(
        "with k as (insert into keywords (tenant_id, brand_id, text) values ($1, $2, 'k') returning id),"
        " t as (insert into topics (tenant_id, brand_id, name) values ($1, $2, 't') returning id)"
        " select k.id as keyword, t.id as topic from k, t",
        world.tenant_id,
        world.brand_id,
    )
    assert hanging is not None
    keyword, topic = hanging["keyword"], hanging["topic"]
    other = await World.create(pool, "Other")
    await other.plan()
    await other.question()
    stranger = login(other, workspaces=[other.workspace_id, world.workspace_id])
    brand = f"/api/tenant/monitoring/brands/{other.brand_id}"
    plan = {"name": "n", "cadence": "0 9 * * *", "platforms": ["qwen"], "question_ids": [ids["question_id"]]}
    tries: list[tuple[str, dict[str, Any]]] = [
        ("/api/tenant/monitoring/brands", {"workspace_id": world.workspace_id, "name": "n"}),
        ("/api/desktop/clients", {"workspace_id": world.workspace_id, "name": "n"}),
        (f"{brand}/keywords", {"text": "n", "topic_id": topic}),
        (f"{brand}/questions", {"text": "n", "keyword_id": keyword}),
        (f"{brand}/questions", {"text": "n", "topic_id": topic}),
        (f"{brand}/questions/bulk", {"questions": [{"text": "n", "keyword_id": keyword}]}),
        (f"{brand}/plans", plan),
        (f"{brand}/collect-now", {"question_ids": [ids["question_id"]]}),
        (f"{brand}/collect-now", {"keyword_id": keyword}),
        (f"{brand}/collect-now", {"target_client_id": str(ids["client_id"])}),
    ]
    before = await rows_of(pool)
    for path, body in tries:
        assert problem_of(await stranger("POST", path, json=body), 404)["code"] == "not_found", (path, body)
    assert await rows_of(pool) == before
