"""Clicks on the running system: doubled, refused, without a worker, and what operators then see."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.contrib.pydantic import pydantic_data_converter

from devstack.demo.material import samples
from devstack.demo.rest import TenantApi
from devstack.demo.seed import Seeded, new_tenant, seed
from domain.messages import collect_now_workflow_id
from store.database import Pool
from tests.e2e.installation import Installation

pytestmark = pytest.mark.timeout(240)


@dataclass(frozen=True, slots=True)
class Office:
    """A seeded tenant without any desktop online, and a signed-in user."""

    http: httpx.AsyncClient
    seeded: Seeded

    async def click(self, **body: Any) -> httpx.Response:
        return await self.http.post(f"/api/tenant/monitoring/brands/{self.seeded.brand_id}/collect-now", json=body)


@pytest.fixture
async def office(installation: Installation, pool: Pool) -> Any:
    material = replace(samples(), questions=samples().questions[:3])
    tenant_id, workspace_id, token = await new_tenant(pool, installation.server.settings, material)
    async with TenantApi(installation.server.api_url, token) as api:
        seeded = await seed(api, tenant_id, workspace_id, material)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=installation.server.api_url, headers=headers, timeout=30) as http:
        yield Office(http, seeded)


async def temporal(installation: Installation) -> Client:
    ends = installation.server.endpoints
    return await Client.connect(
        ends.temporal_address, namespace=ends.temporal_namespace, data_converter=pydantic_data_converter
    )


async def test_two_clicks_that_race_are_one_request(office: Office, installation: Installation, pool: Pool) -> None:
    answers = await asyncio.gather(office.click(), office.click())
    assert sorted(answer.status_code for answer in answers) == [200, 202]
    assert answers[0].json() == answers[1].json()
    assert await pool.fetchval("select count(*) from monitoring_collect_requests") == 1
    assert await pool.fetchval("select max(interrupt_generation) from tenants") == 1
    replayed = await office.click()
    assert (replayed.status_code, replayed.headers["Idempotent-Replay"]) == (200, "true")


async def test_without_a_worker_a_click_is_refused_and_the_same_call_works_later(
    office: Office, installation: Installation, pool: Pool
) -> None:
    await installation.supervisor.stop("worker")
    refused = await office.click(question_ids=[office.seeded.question_ids[0]])
    assert (refused.status_code, refused.json()["code"]) == (503, "dispatch_unavailable")
    assert int(refused.headers["Retry-After"]) > 0
    await installation.supervisor.restart("worker")
    accepted = await office.click(question_ids=[office.seeded.question_ids[0]])
    assert accepted.status_code == 202
    assert await pool.fetchval("select count(*) from monitoring_collect_requests") == 1


async def test_a_cancel_in_temporal_withdraws_the_request_and_shows_it(
    office: Office, installation: Installation, pool: Pool
) -> None:
    accepted = (await office.click()).json()
    handle = (await temporal(installation)).get_workflow_handle(collect_now_workflow_id(accepted["request_id"]))
    await handle.cancel()
    async with asyncio.timeout(60):
        while (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
            await asyncio.sleep(0.1)
    described = await handle.describe()
    assert described.status is WorkflowExecutionStatus.CANCELED
    assert described.search_attributes["GivewayTenant"] == [str(office.seeded.tenant_id)]
    assert described.search_attributes["GivewayStatus"] == ["failed"]
    url = f"/api/tenant/monitoring/collect-requests/{accepted['request_id']}"
    shown = (await office.http.get(url)).json()
    assert (shown["status"], shown["status_reason"]) == ("failed", "cancelled")
    lanes = await pool.fetch("select distinct dispatch_lane, status from monitoring_collect_tasks")
    assert [tuple(row) for row in lanes] == [("normal", "pending")]
