"""From a click to facts over OpenAI-compatible endpoints: registration, hub, driver `api`, ingest (2-desktop §2.4)."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from desktop.drivers import api_drivers
from desktop.openai.endpoints import Endpoints
from desktop.program import Fleet, run_desktops
from devstack.demo.material import samples
from devstack.demo.rest import TenantApi
from devstack.demo.seed import new_tenant, seed
from store.database import Pool
from tests.desktop.provider import fault, running_provider
from tests.e2e.installation import Installation

pytestmark = pytest.mark.timeout(240)


def endpoints(base_url: str, refusing: str) -> Endpoints:
    """`openai` streams responses, `qwen` refuses the key, all others answer whole."""
    whole = {"base_url": base_url, "model": "m-1"}
    streamed = {**whole, "stream": True, "style": "responses"}
    return Endpoints.model_validate(
        {"platforms": {"openai": streamed, "qwen": {**whole, "base_url": refusing}, "*": whole}}
    )


async def test_a_click_is_answered_by_endpoints_and_a_refused_key_shows_as_a_missing_login(
    installation: Installation, pool: Pool, tmp_path: Path
) -> None:
    material = replace(samples(), questions=samples().questions[:1])
    tenant_id, workspace_id, token = await new_tenant(pool, installation.server.settings, material)
    async with TenantApi(installation.server.api_url, token) as api:
        seeded = await seed(api, tenant_id, workspace_id, material)
    stop = asyncio.Event()
    async with running_provider() as provider, running_provider() as refusing:
        refusing.replies = [fault(401, "invalid_api_key") for _ in range(20)]
        drivers = api_drivers(endpoints(provider.base_url, refusing.base_url))
        url = installation.server.api_url
        fleet = Fleet(url, tmp_path / "desktops", 1, drivers, workspace_id, token, max_concurrent=4)
        running = asyncio.create_task(run_desktops(fleet, stop))
        await _until(pool, "select count(*) = 1 from desktop_clients where online and name = 'desktop-1'")
        async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30) as http:
            request = (await http.post(f"/api/tenant/monitoring/brands/{seeded.brand_id}/collect-now", json={})).json()
            affected = request["affected_task_count"]
            await _until(pool, "select count(*) = $1 from question_monitor_runs", affected)
            await _until(
                pool, "select platform_sessions ->> 'qwen' = 'login_required' from desktop_clients where online"
            )
        stop.set()
        assert await running == []
    runs = await pool.fetch("select ai_platform_id, status, wire, failure_reason from question_monitor_runs")
    assert {run["ai_platform_id"]: (run["status"], run["wire"], run["failure_reason"]) for run in runs} == {
        "doubao": ("succeeded", "openai.chat", None),
        "openai": ("succeeded", "openai.responses.sse", None),
        "perplexity": ("succeeded", "openai.chat", None),
        "qwen": ("failed", None, "login_required: HTTP 401"),
    }


async def _until(pool: Pool, query: str, *arguments: Any) -> None:
    async with asyncio.timeout(60):
        while not await pool.fetchval(query, *arguments):
            await asyncio.sleep(0.1)
