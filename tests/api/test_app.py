"""Problems, health, OpenAPI, and what the API does while a part is away."""

from dataclasses import replace
from typing import Any

import asyncpg
import httpx
import pytest
from fastapi import FastAPI
from openapi_spec_validator import validate
from temporalio.client import Client

from api.app import create_app
from api.auth import issue_development_token
from api.openapi import operations
from api.processes import TemporalProcesses
from api.state import AppState
from broker.connection import BrokerConnection
from domain.messages import AcceptCommand, AcceptResult
from settings import Settings
from store.database import Pool
from tests.api.conftest import Caller, problem_of, serving
from tests.support.world import World

AWAY = "127.0.0.1:1"


def caller_of(http: httpx.AsyncClient, settings: Settings, world: World) -> Caller:
    token = issue_development_token(settings, world.tenant_id, [world.workspace_id])
    return Caller(http, {"Authorization": f"Bearer {token}"})


async def test_an_unknown_route_and_method_are_problems(call: Caller) -> None:
    assert problem_of(await call("GET", "/nowhere"), 404)["code"] == "not_found"
    assert problem_of(await call("GET", "/api/tenant/monitoring/brands/"), 404)["code"] == "not_found"
    response = await call("PUT", "/api/tenant/monitoring/brands")
    assert problem_of(response, 405)["code"] == "method_not_allowed"
    assert response.headers["allow"]


class Broken:
    """An accept that fails as nobody foresaw."""

    async def accept(self, command: AcceptCommand) -> AcceptResult:
        raise ZeroDivisionError("the secret inside")


async def test_an_unforeseen_error_is_a_500_that_tells_nothing(
    settings: Settings, state: AppState, world: World
) -> None:
    await world.plan()
    async with serving(create_app(settings, replace(state, accept=Broken()))) as http:
        call = caller_of(http, settings, world)
        response = await call("POST", f"/api/tenant/monitoring/brands/{world.brand_id}/collect-now", json={})
    assert problem_of(response, 500)["code"] == "internal_error"
    assert "secret" not in response.text


class Deadlocked:
    """An accept that PostgreSQL rolled back."""

    async def accept(self, command: AcceptCommand) -> AcceptResult:
        raise asyncpg.DeadlockDetectedError("deadlock detected")


async def test_a_lost_deadlock_is_a_503_that_says_to_try_again(
    settings: Settings, state: AppState, world: World
) -> None:
    await world.plan()
    async with serving(create_app(settings, replace(state, accept=Deadlocked()))) as http:
        call = caller_of(http, settings, world)
        response = await call("POST", f"/api/tenant/monitoring/brands/{world.brand_id}/collect-now", json={})
    assert problem_of(response, 503)["retry_after"] == 2


async def test_without_a_database_the_answer_is_503_with_retry_after(
    settings: Settings, state: AppState, world: World
) -> None:
    nowhere: Any = asyncpg.create_pool(f"postgresql://nobody@{AWAY}/none", min_size=0)
    pool = await nowhere
    async with serving(create_app(settings, replace(state, pool=pool))) as http:
        call = caller_of(http, settings, world)
        problem = problem_of(await call("GET", "/api/tenant/monitoring/brands"), 503)
        ready = await http.get("/readyz")
    assert (problem["code"], problem["retry_after"]) == ("database_unavailable", 2)
    assert (ready.status_code, ready.json()["database"]) == (503, "down")


async def test_terminated_connections_heal(call: Caller, world: World, pool: Pool) -> None:
    path = "/api/tenant/monitoring/brands"
    assert (await call("GET", path)).status_code == 200
    await pool.fetch(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and application_name = 'giveway-api'"
    )
    statuses = [(await call("GET", path)).status_code for _ in range(20)]
    assert set(statuses) <= {200, 503}
    assert statuses[-1] == 200


async def test_healthy_parts_are_ready(http: httpx.AsyncClient) -> None:
    assert (await http.get("/healthz")).json() == {"status": "ok"}
    ready = await http.get("/readyz")
    assert ready.json() == {"status": "ready", "database": "up", "broker": "up", "temporal": "up"}


async def test_without_broker_and_temporal_reads_are_served_and_readyz_says_what_is_down(
    settings: Settings, state: AppState, world: World
) -> None:
    away = replace(
        state,
        broker=BrokerConnection(f"amqp://guest:guest@{AWAY}/", name="test"),
        processes=TemporalProcesses(await Client.connect(AWAY, lazy=True)),
    )
    async with serving(create_app(settings, away)) as http:
        call = caller_of(http, settings, world)
        assert (await call("GET", "/api/tenant/monitoring/brands")).status_code == 200
        plan = await world.plan()
        run = await call("POST", f"/api/tenant/monitoring/plans/{plan}/run")
        ready = await http.get("/readyz")
    assert (run.status_code, run.json()["scan_triggered"]) == (202, False)
    assert ready.status_code == 503
    assert ready.json() == {"status": "not_ready", "database": "up", "broker": "down", "temporal": "down"}


async def test_the_app_opens_its_own_resources_while_broker_and_temporal_are_away(settings: Settings) -> None:
    alone = settings.model_copy(update={"amqp_url": f"amqp://guest:guest@{AWAY}/", "temporal_address": AWAY})
    async with serving(create_app(alone)) as http:
        assert (await http.get("/healthz")).status_code == 200


def test_every_change_of_operators_says_which_version_it_wants_and_shows(app: FastAPI) -> None:
    paths = app.openapi()["paths"]
    changes = [item for path, item in paths.items() if path.startswith("/api/ops/") and "put" in item]
    assert changes
    for item in changes:
        assert "if-match" in [parameter["name"] for parameter in item["put"]["parameters"]]
        assert all("ETag" in item[method]["responses"]["200"]["headers"] for method in ("get", "put"))


def test_the_openapi_document_is_valid_and_every_operation_has_an_id_and_an_answer(app: FastAPI) -> None:
    document = app.openapi()
    validate(document)
    every = operations(document)
    ids = [operation["operationId"] for operation in every]
    assert len(set(ids)) == len(ids) > 30
    for operation in every:
        assert operation["tags"]
        fine = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
        assert fine
        assert "204" in operation["responses"] or all(answer["content"] for answer in fine), operation["operationId"]
        assert "application/problem+json" in operation["responses"]["default"]["content"]
    assert {"userToken", "deviceToken"} <= document["components"]["securitySchemes"].keys()
    for path, item in document["paths"].items():
        if path.startswith("/api/"):
            assert all(operation["security"] for operation in item.values()), path


# --- dashboard -----------------------------------------------------------------------------------------------


async def add_day(world: World, table: str, ago: int, *, platform: str | None = None, **counts: int) -> None:
    """One projected row, `ago` days before the brand's today."""
    given = {
        "expected_count": 0, "collected_count": 0, "failed_count": 0, "missing_count": 0, "mentioned_count": 0,
        "first_count": 0, "position_sum": 0, "positioned_count": 0, "brand_mentions": 0, "competitor_mentions": 0,
        "citation_count": 0, "own_citation_count": 0, **counts,
    }  # fmt: skip
    columns, values = list(given), list(given.values())
    if platform:
        columns, values = [*columns, "ai_platform_id"], [*values, platform]  # type: ignore[list-item]
    places = ", ".join(f"${number + 4}" for number in range(len(values)))
    await world.pool.execute(
        f"insert into {table} (tenant_id, brand_id, business_date, run_mode, {', '.join(columns)})"
        f" values ($1, $2, (now() at time zone 'Asia/Shanghai')::date - $3::int, 'api_standard', {places})",
        world.tenant_id, world.brand_id, ago, *values,
    )  # fmt: skip


async def test_the_overview_takes_rates_over_what_was_collected_only(call: Caller, world: World) -> None:
    await add_day(
        world, "monitoring_brand_daily", 0, expected_count=10, collected_count=4, failed_count=1, missing_count=5,
        mentioned_count=3, first_count=1, position_sum=6, positioned_count=3, brand_mentions=6, competitor_mentions=2,
        citation_count=5, own_citation_count=2,
    )  # fmt: skip
    await add_day(world, "monitoring_brand_daily", 1, expected_count=5, missing_count=5)
    await add_day(world, "monitoring_brand_daily", 7, expected_count=99, collected_count=99)
    path = f"/api/tenant/monitoring/brands/{world.brand_id}/overview"
    found = (await call("GET", path, params={"days": 7})).json()
    assert (found["expected_count"], found["collected_count"], found["missing_count"]) == (15, 4, 10)
    assert (found["mention_rate"], found["average_position"], found["share_of_voice"]) == (0.75, 2.0, 0.75)
    assert found["completeness"] == pytest.approx(4 / 15)
    today, yesterday = found["daily"][-1], found["daily"][-2]
    assert (len(found["daily"]), today["mention_rate"], yesterday["mention_rate"]) == (7, 0.75, None)
    search = (await call("GET", path, params={"scope": "search"})).json()
    assert (search["expected_count"], search["mention_rate"], search["completeness"]) == (0, None, None)


async def test_a_platform_without_the_capability_is_not_supported_rather_than_zero(
    call: Caller, world: World, pool: Pool
) -> None:
    await pool.execute("update ai_platforms set supports_search_grounded = false where id = 'kimi'")
    await pool.execute("update ai_platforms set supports_citation = false where id = 'qwen'")
    await world.plan(platforms=("qwen", "kimi"))
    await add_day(
        world, "monitoring_brand_platform_daily", 0, platform="qwen", expected_count=2, collected_count=2,
        mentioned_count=1,
    )  # fmt: skip
    path = f"/api/tenant/monitoring/brands/{world.brand_id}/platform-stats"
    standard = {item["platform"]: item for item in (await call("GET", path)).json()["items"]}
    assert standard["qwen"]["visibility"]["mention_rate"] == 0.5
    assert standard["qwen"]["visibility"]["citation_count"] is None
    assert standard["kimi"]["visibility"]["mention_rate"] is None
    search = {item["platform"]: item for item in (await call("GET", path, params={"scope": "search"})).json()["items"]}
    assert (search["kimi"]["supported"], search["kimi"]["visibility"]) == (False, None)
