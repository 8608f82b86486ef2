"""Brands, competitors, keywords, questions and plans through HTTP."""

import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest

from api.auth import Role
from store.database import Pool
from tests.api.conftest import Caller, Login, problem_of
from tests.support.world import World

BASE = "/api/tenant/monitoring"


async def made(call: Caller, path: str, body: dict[str, Any], status: int = 201) -> dict[str, Any]:
    response = await call("POST", BASE + path, json=body)
    assert response.status_code == status, response.text
    found: dict[str, Any] = response.json()
    return found


async def test_a_brand_is_made_listed_and_changed(call: Caller, world: World) -> None:
    body = {"workspace_id": world.workspace_id, "name": " 新品牌 ", "aliases": ["NB"], "domains": ["NB.example"]}
    brand = await made(call, "/brands", body)
    assert (brand["name"], brand["domains"]) == ("新品牌", ["nb.example"])
    changed = await call("PATCH", f"{BASE}/brands/{brand['id']}", json={"aliases": ["a", "b"]})
    assert (changed.json()["name"], changed.json()["aliases"]) == ("新品牌", ["a", "b"])
    listed = (await call("GET", f"{BASE}/brands")).json()
    assert [item["id"] for item in listed["items"]] == [world.brand_id, brand["id"]]


async def test_a_name_in_use_is_a_conflict(call: Caller, world: World) -> None:
    response = await call("POST", f"{BASE}/brands", json={"workspace_id": world.workspace_id, "name": "Acme"})
    assert problem_of(response, 409)["code"] == "conflict"


@pytest.mark.parametrize("body", [{"name": None}, {"name": ""}, {"name": "x" * 201}, {"nam": "x"}, {"aliases": None}])
async def test_a_change_to_nothing_or_too_much_is_refused(call: Caller, world: World, body: dict[str, Any]) -> None:
    response = await call("PATCH", f"{BASE}/brands/{world.brand_id}", json=body)
    assert problem_of(response, 422)["errors"][0]["loc"][0] == "body"


async def test_pages_follow_each_other_without_gap_or_repeat(call: Caller, world: World) -> None:
    for number in range(7):
        await made(call, f"/brands/{world.brand_id}/topics", {"name": f"topic {number}"})
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(4):
        params = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = (await call("GET", f"{BASE}/brands/{world.brand_id}/topics", params=params)).json()
        seen += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert seen == [f"topic {number}" for number in range(7)]
    assert cursor is None


@pytest.mark.parametrize("cursor", ["x", "bnVsbA", "WyJhIl0", "W10", "WzFlOTld", "é", "A" * 200])
async def test_a_foreign_cursor_is_refused(call: Caller, cursor: str) -> None:
    problem_of(await call("GET", f"{BASE}/brands", params={"cursor": cursor}), 422)


async def test_a_changed_text_is_a_new_version_and_an_old_text_its_old_one(
    call: Caller, world: World, pool: Pool
) -> None:
    first = await made(call, f"/brands/{world.brand_id}/questions", {"text": "谁最好？", "only_platforms": ["qwen"]})
    path = f"{BASE}/questions/{first['id']}"
    second = (await call("PATCH", path, json={"text": "Who is best?"})).json()
    assert second["current_version_id"] != first["current_version_id"]
    assert second["only_platforms"] == ["qwen"]
    again = (await call("PATCH", path, json={"text": "谁最好？", "only_platforms": None})).json()
    assert again["current_version_id"] == first["current_version_id"]
    assert again["only_platforms"] is None
    stored = await pool.fetchval("select text_hash from question_versions where id = $1", first["current_version_id"])
    assert stored == hashlib.sha256("谁最好？".encode()).hexdigest()


async def test_the_longest_question_is_kept_whole_and_recognised(call: Caller, world: World) -> None:
    # Characters that do not compress: an index entry could not hold them.
    text = "".join(chr(0x4E00 + (number * 7919) % 20000) for number in range(4000))
    question = await made(call, f"/brands/{world.brand_id}/questions", {"text": text})
    assert question["text"] == text
    again = await call("POST", f"{BASE}/brands/{world.brand_id}/questions", json={"text": text})
    assert problem_of(again, 409)["code"] == "conflict"


async def test_a_list_of_questions_sent_twice_adds_nothing_the_second_time(call: Caller, world: World) -> None:
    keyword = await made(call, f"/brands/{world.brand_id}/keywords", {"text": "pumps"})
    questions = [{"text": f"question {n}", "keyword_id": keyword["id"]} for n in range(3)]
    questions[1]["only_platforms"] = ["kimi"]
    path = f"/brands/{world.brand_id}/questions/bulk"
    first = await made(call, path, {"questions": [*questions, questions[0]]}, 200)
    second = await made(call, path, {"questions": questions}, 200)
    assert (first["created"], second["created"]) == (3, 0)
    assert first["items"] == second["items"]
    assert [item["only_platforms"] for item in first["items"]] == [None, ["kimi"], None]
    assert all(item["current_version_id"] for item in first["items"])
    assert problem_of(await call("POST", BASE + path[:-5], json=questions[0]), 409)["code"] == "conflict"


async def test_a_keyword_of_another_brand_is_missing(call: Caller, world: World) -> None:
    other = await made(call, "/brands", {"workspace_id": world.workspace_id, "name": "other"})
    keyword = await made(call, f"/brands/{other['id']}/keywords", {"text": "pumps"})
    body = {"text": "Which?", "keyword_id": keyword["id"]}
    problem_of(await call("POST", f"{BASE}/brands/{world.brand_id}/questions", json=body), 404)


async def test_a_plan_knows_its_next_run_on_its_own_clock(call: Caller, world: World) -> None:
    body = {"name": "daily", "cadence": "0 9 * * *", "time_zone": "America/New_York", "platforms": ["qwen"]}
    plan = await made(call, f"/brands/{world.brand_id}/plans", body)
    next_run = datetime.fromisoformat(plan["next_run_at"]).astimezone(UTC)
    assert next_run.hour in (13, 14)
    path = f"{BASE}/plans/{plan['id']}"
    moved = (await call("PATCH", path, json={"cadence_kind": "rrule", "cadence": "FREQ=DAILY;BYHOUR=10"})).json()
    assert datetime.fromisoformat(moved["next_run_at"]).astimezone(UTC).hour in (14, 15)
    off = (await call("DELETE", path)).json()
    assert (off["active"], off["next_run_at"]) == (False, None)
    assert problem_of(await call("POST", f"{path}/run"), 409)["code"] == "conflict"
    back = (await call("PATCH", path, json={"active": True})).json()
    assert back["next_run_at"] == moved["next_run_at"]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"cadence": "99 * * * *"}, 422),
        ({"cadence_kind": "rrule", "cadence": "FREQ=DAILY;INTERVAL=0"}, 422),
        ({"cadence_kind": "sundial"}, 422),
        ({"time_zone": "Mars/Olympus"}, 422),
        ({"platforms": []}, 422),
        ({"platforms": ["nobody"]}, 404),
        ({"question_ids": [2**62]}, 404),
        ({"question_ids": [2**63]}, 422),
    ],
)
async def test_a_plan_that_could_never_work_is_refused(
    call: Caller, world: World, change: dict[str, Any], status: int
) -> None:
    body = {"name": "daily", "cadence": "0 9 * * *", "platforms": ["qwen"], **change}
    problem_of(await call("POST", f"{BASE}/brands/{world.brand_id}/plans", json=body), status)


async def test_run_makes_the_plan_due_also_while_no_schedule_answers(call: Caller, world: World, pool: Pool) -> None:
    plan = await world.plan(next_run_at=datetime(2099, 1, 1, tzinfo=UTC))
    response = await call("POST", f"{BASE}/plans/{plan}/run")
    assert response.status_code == 202
    assert response.json()["plan_id"] == plan
    assert await pool.fetchval("select next_run_at <= now() from monitoring_plans where id = $1", plan)


async def test_viewers_read_and_do_not_write(login: Login, world: World) -> None:
    viewer = login(world, Role.VIEWER)
    assert (await viewer("GET", f"{BASE}/brands/{world.brand_id}")).status_code == 200
    body = {"workspace_id": world.workspace_id, "name": "x"}
    assert problem_of(await viewer("POST", f"{BASE}/brands", json=body), 403)["code"] == "forbidden"
    problem_of(await viewer("POST", f"{BASE}/brands/{world.brand_id}/collect-now", json={}), 403)


async def test_a_brand_of_a_workspace_that_the_token_does_not_open_is_missing(login: Login, world: World) -> None:
    stranger = login(world, Role.ADMIN, workspaces=[world.workspace_id + 1])
    problem_of(await stranger("GET", f"{BASE}/brands/{world.brand_id}"), 404)
    assert (await stranger("GET", f"{BASE}/brands")).json()["items"] == []


async def test_clients_are_registered_once_listed_and_revoked(call: Caller, world: World, pool: Pool) -> None:
    made_client = await call("POST", "/api/desktop/clients", json={"workspace_id": world.workspace_id, "name": "mac"})
    assert made_client.status_code == 201
    assert made_client.headers["cache-control"] == "no-store"
    body = made_client.json()
    assert body["ws_url"].endswith("/api/desktop/ws")
    stored = await pool.fetchval("select token_hash from desktop_clients where id = $1::text::uuid", body["client_id"])
    assert stored == hashlib.sha256(body["token"].encode()).digest()
    listed = (await call("GET", "/api/desktop/clients")).json()["items"]
    assert [(item["id"], item["online"], item["user_id"]) for item in listed] == [(body["client_id"], False, 7)]
    assert (await call("DELETE", f"/api/desktop/clients/{body['client_id']}")).status_code == 204
    assert (await call("GET", "/api/desktop/clients")).json()["items"][0]["revoked_at"]
