"""Doubtful answers through REST: listed, shown, labelled, and the run's figures with them (3-results §3.3)."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from api.auth import Role
from api.state import AppState
from store.database import Pool
from tests.api.conftest import Caller, Login, problem_of
from tests.support.badcases import AMBIGUOUS, doubtful, store_answer
from tests.support.results import chat_answer, result
from tests.support.world import BUSINESS_DATE, Lease, World, ago

PATH = "/api/tenant/monitoring/badcases"
SAID = {"is_answer": True, "mentions": [{"name": "Acme", "count": 2, "position": 3}]}
CITED = chat_answer(AMBIGUOUS, urls=["https://one.example/a", "https://two.example/b"])


async def put(call: Caller, case: int, label: Mapping[str, Any], version: int) -> httpx.Response:
    return await call("PUT", f"{PATH}/{case}/label", json=label, headers={"If-Match": f'"{version}"'})


async def take_back(call: Caller, case: int, version: int) -> httpx.Response:
    return await call("DELETE", f"{PATH}/{case}/label", headers={"If-Match": f'"{version}"'})


async def facts(pool: Pool) -> dict[str, Any]:
    """What a label may change of runs, and nothing that says when."""
    run = "select id, status, failure_kind, failure_reason, attempt_id from question_monitor_runs order by id"
    parse = "select * from question_monitor_parse_results order by run_id"
    cited = "select * from monitoring_citation_facts order by run_id, ordinal"
    return {statement: await pool.fetch(statement) for statement in (run, parse, cited)}


async def figures(pool: Pool) -> dict[str, Any]:
    row = await pool.fetchrow(
        "select r.status, r.failure_kind, p.brand_mention_count as count, p.brand_position as position, p.absence,"
        " p.share_of_voice as share, p.competitor_mention_count as rivals, p.mentions, p.confidence, p.citation_count,"
        " p.labelled_case_id as decided_by from question_monitor_runs r"
        " left join question_monitor_parse_results p on p.run_id = r.id"
    )
    assert row is not None
    return dict(row)


@pytest.fixture
async def case(world: World, state: AppState) -> int:
    """A badcase: the brand Acme, also called GO, with the competitor Hikari."""
    await world.pool.execute(
        "insert into competitors (tenant_id, brand_id, name) values ($1, $2, 'Hikari')", world.tenant_id, world.brand_id
    )
    await world.pool.execute("update brands set aliases = '{GO}' where id = $1", world.brand_id)
    return await doubtful(world, state.raw_answers, CITED)


async def test_cases_are_listed_newest_first_in_pages(call: Caller, world: World, state: AppState) -> None:
    cases = [await doubtful(world, state.raw_answers) for _ in range(3)]
    first = (await call("GET", f"{PATH}?limit=2")).json()
    second = (await call("GET", f"{PATH}?limit=2&cursor={first['next_cursor']}")).json()
    assert [row["id"] for row in first["items"] + second["items"]] == cases[::-1]
    assert second["next_cursor"] is None


async def test_each_filter_narrows_the_list(call: Caller, world: World, state: AppState, case: int) -> None:
    unread = await doubtful(world, state.raw_answers, '{"odd": 1}')
    await put(call, case, SAID, 1)
    expected = {
        "": {case, unread},
        "reason=unknown_format": {unread},
        "reason=no_such": set(),
        "state=open": {unread},
        "state=labelled": {case},
        f"brand_id={world.brand_id}": {case, unread},
        f"brand_id={world.brand_id + 1}": set(),
        "platform=qwen": {case, unread},
        "platform=openai": set(),
        f"from={BUSINESS_DATE}&to={BUSINESS_DATE}": {case, unread},
        "from=2026-04-21": set(),
        "to=2026-04-19": set(),
    }
    for query, ids in expected.items():
        listed = (await call("GET", f"{PATH}?{query}")).json()["items"]
        assert {row["id"] for row in listed} == ids, query
    for odd in ("state=closed", "reason=%27", "from=yesterday", "platform=%20"):
        problem_of(await call("GET", f"{PATH}?{odd}"), 422)


async def test_one_case_shows_question_run_figures_and_reason(call: Caller, case: int) -> None:
    answer = await call("GET", f"{PATH}/{case}")
    shown = answer.json()
    assert answer.headers["etag"] == '"1"'
    assert (shown["reason"], shown["confidence"], shown["stands"], shown["has_answer"]) == (
        "ambiguous_name", 0.6, True, True,
    )  # fmt: skip
    assert (shown["run"]["status"], shown["parse"]["brand_mention_count"], shown["label"]) == ("succeeded", 1, None)
    assert shown["question"].startswith("Which brand is best?")


async def test_the_answer_is_plain_text_that_no_browser_runs(
    call: Caller, world: World, state: AppState, case: int
) -> None:
    answer = await call("GET", f"{PATH}/{case}/answer")
    assert (answer.text, answer.headers["content-type"]) == (AMBIGUOUS, "text/plain; charset=utf-8")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert (await call("GET", f"{PATH}/{case}/answer?form=body")).text == CITED
    page = '{"html": "<script>alert(1)</script>"}'
    unread = await doubtful(world, state.raw_answers, page)
    assert (await call("GET", f"{PATH}/{unread}/answer")).text == page
    await world.pool.execute("update monitoring_parse_badcases set raw_answer_key = 'gone' where id = $1", unread)
    problem_of(await call("GET", f"{PATH}/{unread}/answer"), 404)


async def test_a_label_decides_the_figures_and_leaves_what_it_says_nothing_of(
    call: Caller, pool: Pool, world: World, case: int
) -> None:
    said = {
        "is_answer": True,
        "mentions": [{"name": "hikari", "count": 3, "position": 1}, {"name": "GO", "count": 1, "position": 2}],
        "absence": True,
        "note": "the game, once",
    }
    await pool.execute("delete from projection_rebuild_queue")
    answer = await put(call, case, said, 1)
    assert (answer.status_code, answer.headers["etag"], answer.json()["decides_figures"]) == (200, '"2"', True)
    found = await figures(pool)
    assert (found["status"], found["count"], found["position"], found["absence"]) == ("succeeded", 1, 2, True)
    assert (found["share"], found["rivals"], found["confidence"], found["decided_by"]) == (0.25, 3, 1, case)
    assert found["citation_count"] == 2
    rival = await pool.fetchval("select id from competitors")
    assert [(each["name"], each["competitor_id"], each["count"]) for each in found["mentions"]] == [
        ("Hikari", rival, 3),
        ("Acme", None, 1),
    ]
    marked = await pool.fetch("select tenant_id, brand_id, business_date from projection_rebuild_queue")
    assert [tuple(row) for row in marked] == [(world.tenant_id, world.brand_id, BUSINESS_DATE)]
    label = answer.json()["case"]["label"]
    assert (label["note"], [each["name"] for each in label["mentions"]]) == ("the game, once", ["Hikari", "Acme"])


async def test_a_labelled_body_without_an_answer_makes_the_run_missing(call: Caller, pool: Pool, case: int) -> None:
    answer = await put(call, case, {"is_answer": False, "note": "a captcha"}, 1)
    assert answer.json()["case"]["run"]["failure_kind"] == "labelled_no_answer"
    assert answer.json()["case"]["parse"] is None
    assert await pool.fetchval("select failure_reason from question_monitor_runs") == "a captcha"
    assert await pool.fetchval("select count(*) from monitoring_citation_facts") == 0


async def test_an_answer_that_nobody_could_read_becomes_one(
    call: Caller, pool: Pool, world: World, state: AppState
) -> None:
    unread = await doubtful(world, state.raw_answers, '{"odd": "Acme, and Acme again"}')
    await put(call, unread, SAID, 1)
    found = await figures(pool)
    assert (found["status"], found["failure_kind"], found["count"], found["position"]) == ("succeeded", None, 2, 3)
    await take_back(call, unread, 2)
    assert (await figures(pool))["failure_kind"] == "error"
    assert await pool.fetchval("select count(*) from question_monitor_parse_results") == 0


@pytest.mark.parametrize("labels", [[SAID], [{"is_answer": False}], [{"is_answer": False}, SAID], [SAID, SAID]])
async def test_a_label_taken_back_leaves_the_facts_as_they_were(
    call: Caller, pool: Pool, case: int, labels: list[dict[str, Any]]
) -> None:
    before = await facts(pool)
    for version, label in enumerate(labels, start=1):
        assert (await put(call, case, label, version)).json()["decides_figures"] is True
    assert await facts(pool) != before
    answer = await take_back(call, case, len(labels) + 1)
    assert (answer.json()["decides_figures"], answer.json()["case"]["label"]) == (True, None)
    assert await facts(pool) == before
    assert await pool.fetchval("select count(*) from monitoring_regression_cases") == 0
    assert problem_of(await take_back(call, case, len(labels) + 2), 409)["code"] == "conflict"


async def test_a_second_label_replaces_the_first_whole(call: Caller, pool: Pool, case: int) -> None:
    await put(call, case, {"is_answer": False}, 1)
    await put(call, case, SAID, 2)
    found = await figures(pool)
    assert (found["status"], found["count"], found["citation_count"]) == ("succeeded", 2, 2)
    assert await pool.fetchval("select count(*) from monitoring_citation_facts") == 2


async def test_labels_are_audited_with_before_and_after(call: Caller, pool: Pool, case: int) -> None:
    await put(call, case, SAID, 1)
    await put(call, case, {"is_answer": False}, 2)
    await take_back(call, case, 3)
    rows = await pool.fetch("select actor, action, subject, detail from audit_events order by id")
    assert [(row["actor"], row["action"], row["subject"]) for row in rows] == [
        ("user:7", "badcase_labelled", f"badcase {case}"),
        ("user:7", "badcase_labelled", f"badcase {case}"),
        ("user:7", "badcase_label_taken_back", f"badcase {case}"),
    ]
    assert rows[0]["detail"]["before"] is None
    assert rows[1]["detail"]["before"] == rows[0]["detail"]["after"]
    assert rows[2]["detail"]["before"]["is_answer"] is False


async def test_a_label_names_the_version_it_changes(call: Caller, pool: Pool, case: int) -> None:
    assert problem_of(await call("PUT", f"{PATH}/{case}/label", json=SAID), 428)["code"] == "version_required"
    for version in (0, 2):
        assert problem_of(await put(call, case, SAID, version), 412)["code"] == "stale_version"
    assert await pool.fetchval("select count(*) from audit_events") == 0
    assert (await figures(pool))["decided_by"] is None


async def test_a_name_that_is_nobodys_is_refused_with_those_that_are_known(call: Caller, case: int) -> None:
    label = {"is_answer": True, "mentions": [{"name": "Acne", "count": 1, "position": 1}]}
    problem = problem_of(await put(call, case, label, 1), 422)
    assert (problem["code"], problem["known"]) == ("unknown_name", ["Acme", "Hikari"])


@pytest.mark.parametrize(
    "label",
    [
        {},
        {"is_answer": "yes"},
        {"is_answer": True, "mention": []},
        {"is_answer": False, "absence": True},
        {"is_answer": True, "mentions": [{"name": "Acme", "count": 0, "position": 1}]},
        {"is_answer": True, "mentions": [{"name": "Acme", "count": 1}]},
        {"is_answer": True, "mentions": [{"name": "Acme", "count": 1, "position": 1, "first_offset": 46}]},
        {"is_answer": True, "mentions": [{"name": "Acme", "count": 1, "position": 1}] * 2},
        {"is_answer": True, "note": "x" * 2001},
    ],
)
async def test_a_label_that_says_nothing_sensible_is_refused(call: Caller, case: int, label: dict[str, Any]) -> None:
    problem_of(await put(call, case, label, 1), 422)


async def test_who_may_only_look_cannot_label_and_strangers_find_nothing(login: Login, world: World, case: int) -> None:
    viewer = login(world, Role.VIEWER)
    assert (await viewer("GET", f"{PATH}/{case}")).status_code == 200
    problem_of(await put(viewer, case, SAID, 1), 403)
    problem_of(await take_back(viewer, case, 1), 403)
    elsewhere = login(world, Role.ADMIN, workspaces=[world.workspace_id + 1])
    for answer in (await elsewhere("GET", f"{PATH}/{case}"), await put(elsewhere, case, SAID, 1)):
        problem_of(answer, 404)
    assert (await elsewhere("GET", PATH)).json()["items"] == []


async def leased_later(world: World, case: int) -> Lease:
    """Another attempt of the case's task, leased after the first."""
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    first = await world.pool.fetchval("select attempt_id from monitoring_parse_badcases where id = $1", case)
    await world.pool.execute("update desktop_task_attempts set leased_at = $2 where id = $1", first, ago(hours=1))
    task = await world.pool.fetchval("select monitor_task_id from desktop_task_attempts where id = $1", first)
    await world.pool.execute(
        "update desktop_task_attempts set monitor_task_id = $2 where id = $1", lease.attempt_id, task
    )
    return Lease(lease.task_id, task, lease.attempt_id, lease.token)


async def next_answer(world: World, state: AppState, case: int, raw: str) -> None:
    lease = await leased_later(world, case)
    await store_answer(world, state.raw_answers, lease, result(world, lease, await world.client(), raw=raw))


async def test_a_label_of_an_answer_that_was_replaced_changes_no_figures(
    call: Caller, pool: Pool, world: World, state: AppState, case: int
) -> None:
    await put(call, case, SAID, 1)
    await next_answer(world, state, case, chat_answer("Acme is the one."))
    after = await facts(pool)
    assert (await figures(pool))["decided_by"] is None
    answer = await put(call, case, {"is_answer": False}, 2)
    assert (answer.json()["decides_figures"], answer.json()["case"]["stands"]) == (False, False)
    assert await pool.fetchval("select label ->> 'is_answer' from monitoring_regression_cases") == "false"
    assert (await take_back(call, case, 3)).json()["decides_figures"] is False
    assert await facts(pool) == after


async def test_a_later_answer_with_the_same_doubt_opens_the_case_again_and_keeps_the_regression_case(
    call: Caller, pool: Pool, world: World, state: AppState, case: int
) -> None:
    await put(call, case, SAID, 1)
    await next_answer(world, state, case, chat_answer("GO, and nobody else."))
    shown = (await call("GET", f"{PATH}/{case}")).json()
    assert (shown["label"], shown["stands"], shown["version"]) == (None, True, 3)
    assert (await call("GET", f"{PATH}/{case}/answer")).text == "GO, and nobody else."
    assert await pool.fetchval("select count(*) from monitoring_regression_cases") == 1
    assert (await put(call, case, SAID, 3)).json()["decides_figures"] is True
    assert await pool.fetchval("select count(*) from monitoring_regression_cases") == 2


async def test_an_open_case_goes_with_the_answer_it_was_about(
    call: Caller, world: World, state: AppState, case: int
) -> None:
    await next_answer(world, state, case, chat_answer("Acme is the one."))
    problem_of(await put(call, case, SAID, 1), 404)


async def test_a_labelled_run_is_known_as_such_until_its_answer_is_replaced(
    call: Caller, pool: Pool, world: World, state: AppState, case: int
) -> None:
    """What a reparse asks before it touches a run, whichever way the label went."""
    for version, label in ((1, SAID), (2, {"is_answer": False})):
        await put(call, case, label, version)
        assert await pool.fetchval("select case_id from labelled_runs") == case
    await next_answer(world, state, case, chat_answer("Acme is the one."))
    assert await pool.fetchval("select count(*) from labelled_runs") == 0
