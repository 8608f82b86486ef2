"""`GET …/tasks`: how a tenant finds the ids that `explain` takes."""

from api.auth import Role
from tests.api.conftest import Caller, Login, problem_of
from tests.support.world import BUSINESS_DATE, World

PATH = "/api/tenant/monitoring/tasks"


async def test_tasks_of_a_batch_come_in_pages_and_by_status(call: Caller, world: World) -> None:
    batch = await world.batch()
    tasks = sorted([await world.business_task(batch_id=batch) for _ in range(3)])
    await world.business_task()
    await world.set("monitoring_collect_tasks", tasks[1], status="completed")
    first = (await call("GET", f"{PATH}?batch_id={batch}&limit=2")).json()
    second = (await call("GET", f"{PATH}?batch_id={batch}&limit=2&cursor={first['next_cursor']}")).json()
    assert [row["id"] for row in first["items"] + second["items"]] == tasks
    assert second["next_cursor"] is None
    done = (await call("GET", f"{PATH}?batch_id={batch}&status=completed")).json()
    assert [row["id"] for row in done["items"]] == [tasks[1]]


async def test_tasks_of_a_request_and_of_a_brands_day(call: Caller, world: World) -> None:
    request = await world.request()
    mine, other = await world.business_task(request_id=request), await world.business_task()
    asked = (await call("GET", f"{PATH}?collect_request_id={request}")).json()
    assert [row["id"] for row in asked["items"]] == [mine]
    day = (await call("GET", f"{PATH}?brand_id={world.brand_id}&business_date={BUSINESS_DATE}")).json()
    assert [row["id"] for row in day["items"]] == sorted([mine, other])


async def test_exactly_one_of_the_three_is_named(call: Caller, world: World) -> None:
    for query in ("", f"?brand_id={world.brand_id}", "?batch_id=1&brand_id=1&business_date=2026-04-20"):
        assert problem_of(await call("GET", PATH + query), 422)["code"] == "invalid_input"


async def test_another_tenants_tasks_are_not_listed(login: Login, world: World) -> None:
    batch, request = await world.batch(), await world.request()
    await world.business_task(batch_id=batch, request_id=request)
    other = await World.create(world.pool, "Other")
    stranger = login(other, Role.ADMIN, workspaces=[other.workspace_id, world.workspace_id])
    day = f"brand_id={world.brand_id}&business_date={BUSINESS_DATE}"
    for query in (f"batch_id={batch}", f"collect_request_id={request}", day):
        assert (await stranger("GET", f"{PATH}?{query}")).json() == {"items": [], "next_cursor": None}
