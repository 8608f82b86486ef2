"""Tenants and their workspaces: made by operators and by the demo, never by a tenant's own calls."""

from dataclasses import dataclass

from store.database import Pool, transaction
from store.statements import statements

SQL = statements("tenants")


@dataclass(frozen=True, slots=True)
class NewTenant:
    """A tenant with its first workspace."""

    tenant_id: int
    workspace_id: int


async def create_tenant(
    pool: Pool, name: str, *, dispatch_per_minute: int | None = None, actor: str = "giveway"
) -> NewTenant:
    """Create a tenant and one workspace of the same name; audited. `dispatch_per_minute`: its own minute budget."""
    async with transaction(pool) as connection:
        row = await connection.fetchrow(SQL["create_tenant"], name, actor, dispatch_per_minute)
    assert row is not None
    return NewTenant(row["tenant_id"], row["workspace_id"])


async def ensure_platforms(pool: Pool, platform_ids: list[str]) -> None:
    """Register platforms that are not known yet, with every capability: their answers say what they can."""
    await pool.execute(SQL["ensure_platforms"], platform_ids)
