"""`GET …/tasks/{id}/explain` as a tenant sees it."""

from api.auth import Role
from tests.api.conftest import Caller, Login, problem_of
from tests.support.world import World


def path(task: int) -> str:
    return f"/api/tenant/monitoring/tasks/{task}/explain"


async def test_a_viewer_sees_what_keeps_a_task_with_its_numbers(login: Login, world: World) -> None:
    viewer = login(world, Role.VIEWER)
    await world.leased(await world.client(), status="in_progress")
    task = await world.business_task()
    found = (await viewer("GET", path(task))).json()
    assert (found["state"], found["reason"]) == ("waiting", "platform_concurrency")
    assert found["waiting"]["binding"] == {"name": "platform_concurrency", "passed": False, "used": 1, "limit": 1}
    assert found["waiting"]["position"] == 0
    assert found["held"] is None
    assert "tenant_id" not in found


async def test_a_running_and_a_finished_task_are_explained_too(call: Caller, world: World) -> None:
    client = await world.client()
    lease = await world.leased(client, status="in_progress")
    running = (await call("GET", path(lease.business_id))).json()
    assert (running["state"], running["held"]["client_id"], running["waiting"]) == ("running", str(client.id), None)
    done = await world.business_task()
    await world.set("monitoring_collect_tasks", done, status="completed")
    assert (await call("GET", path(done))).json()["state"] == "completed"


async def test_another_tenants_task_and_a_missing_one_are_the_same(login: Login, world: World) -> None:
    task = await world.business_task()
    other = await World.create(world.pool, "Other")
    stranger = login(other, Role.OPS, workspaces=[other.workspace_id, world.workspace_id])
    first = problem_of(await stranger("GET", path(task)), 404)
    second = problem_of(await stranger("GET", path(task + 10**9)), 404)
    assert first["code"] == second["code"] == "not_found"
