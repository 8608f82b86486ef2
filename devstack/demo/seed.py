"""Seeds a tenant through the REST interface, and registers its two desktops."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from api.auth import issue_development_token
from devstack.demo.material import Material
from devstack.demo.rest import TenantApi
from settings import Settings
from store.database import Pool
from store.tenants import create_tenant, ensure_platforms

# The demo's tenant may use the whole of its minute: the fuse, not more. Other tenants keep the setting.
TENANT_PER_MINUTE = 60
QUESTIONS_A_CALL = 100


@dataclass(frozen=True, slots=True)
class Desk:
    """A registered desktop."""

    client_id: str
    token: str
    ws_url: str
    name: str


@dataclass(frozen=True, slots=True)
class Seeded:
    """What the demo works with."""

    tenant_id: int
    brand_id: int
    plan_id: int
    question_ids: tuple[int, ...]
    desks: tuple[Desk, ...]


async def new_tenant(pool: Pool, settings: Settings, material: Material) -> tuple[int, int, str]:
    """A tenant of its own for each run; returns tenant, workspace and a token of its first user."""
    await ensure_platforms(pool, list(material.platforms))
    tenant = await create_tenant(pool, "Demo tenant", dispatch_per_minute=TENANT_PER_MINUTE, actor="giveway demo")
    token = issue_development_token(
        settings, tenant_id=tenant.tenant_id, workspaces=[tenant.workspace_id], user_id=1, role="admin"
    )
    return tenant.tenant_id, tenant.workspace_id, token


async def seed(api: TenantApi, tenant_id: int, workspace_id: int, material: Material, desks: int = 2) -> Seeded:
    """Brand, competitors, questions, plan and desktops, as a tenant's UI would create them."""
    brand = await api.post("/brands", {"workspace_id": workspace_id, **material.brand})
    for competitor in material.competitors:
        await api.post(f"/brands/{brand['id']}/competitors", competitor)
    questions = await _questions(api, brand["id"], material)
    plan = await api.post(
        f"/brands/{brand['id']}/plans",
        {
            "name": "every morning",
            "cadence_kind": "cron",
            "cadence": "0 8 * * *",
            "platforms": list(material.platforms),
        },
    )
    registered = [await _register(api, workspace_id, f"desktop-{letter}") for letter in "abcdefgh"[:desks]]
    return Seeded(tenant_id, brand["id"], plan["id"], questions, tuple(registered))


def _daytime_zone() -> str:
    """A time zone whose day does not end during the demo: at local midnight a batch is cut off."""
    hours = {zone: datetime.now(ZoneInfo(zone)).hour for zone in ("Asia/Shanghai", "America/Los_Angeles")}
    return min(hours, key=lambda zone: hours[zone])


async def _questions(api: TenantApi, brand_id: int, material: Material) -> tuple[int, ...]:
    ids: list[int] = []
    for start in range(0, len(material.questions), QUESTIONS_A_CALL):
        chunk = material.questions[start : start + QUESTIONS_A_CALL]
        body = {"questions": [_question(one.text, one.platforms) for one in chunk]}
        created = await api.post(f"/brands/{brand_id}/questions/bulk", body)
        ids += [item["id"] for item in created["items"]]
    return tuple(ids)


def _question(text: str, platforms: tuple[str, ...] | None) -> dict[str, Any]:
    return {"text": text} if platforms is None else {"text": text, "only_platforms": list(platforms)}


async def _register(api: TenantApi, workspace_id: int, name: str) -> Desk:
    body = {"workspace_id": workspace_id, "name": name}
    answer = await api.post("/clients", body, base="/api/desktop")
    return Desk(answer["client_id"], answer["token"], answer["ws_url"], name)
