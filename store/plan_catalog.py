"""Plans, as their tenant sees and changes them (1-dispatch §1.6)."""

from dataclasses import dataclass
from datetime import datetime

from domain.cadence import next_run
from domain.errors import Conflict, NotFound
from store.catalog import Changes, Reach, Record, read_brand
from store.database import Connection, Pool, transaction
from store.statements import statements

SQL = statements("plan_catalog")


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """A plan's own columns. `question_ids` None: every active question of the brand."""

    name: str
    cadence_kind: str
    cadence: str
    time_zone: str
    business_date_rule: str
    run_mode: str
    collector_type: str
    question_ids: list[int] | None
    platforms: list[str]
    active: bool = True

    def values(self) -> tuple[object, ...]:
        """In the order of the statements' parameters."""
        return (
            self.name,
            self.cadence_kind,
            self.cadence,
            self.time_zone,
            self.business_date_rule,
            self.run_mode,
            self.collector_type,
            self.question_ids,
            self.platforms,
            self.active,
        )


async def create_plan(pool: Pool, reach: Reach, brand_id: int, draft: PlanDraft) -> Record:
    """InvalidInput for a cadence that can't be read; NotFound for the brand, a question or a platform."""
    async with transaction(pool) as connection:
        brand = await read_brand(connection, reach, brand_id)
        await _check_named(connection, reach, brand_id, draft)
        next_run_at = await _next_run_at(connection, draft)
        row = await connection.fetchrow(
            SQL["create_plan"], reach.tenant_id, brand["workspace_id"], brand_id, *draft.values(), next_run_at
        )
    assert row is not None
    return row


async def change_plan(pool: Pool, reach: Reach, plan_id: int, changes: Changes) -> Record:
    """Only the given columns. A changed time or a plan switched on again computes its next run anew."""
    async with transaction(pool) as connection:
        await connection.execute(SQL["lock_plan"], reach.tenant_id, plan_id)
        old = await read_plan(connection, reach, plan_id)
        fields = PlanDraft.__dataclass_fields__
        draft = PlanDraft(**{name: changes.get(name, old[name]) for name in fields})
        await _check_named(connection, reach, old["brand_id"], draft)
        kept = all(old[name] == getattr(draft, name) for name in ("cadence_kind", "cadence", "time_zone", "active"))
        next_run_at = old["next_run_at"] if kept else await _next_run_at(connection, draft)
        row = await connection.fetchrow(SQL["change_plan"], reach.tenant_id, plan_id, *draft.values(), next_run_at)
    assert row is not None
    return row


async def _next_run_at(connection: Connection, draft: PlanDraft) -> datetime | None:
    """By the database's clock; None for a plan that is off. A cadence is checked either way."""
    found = next_run(draft.cadence_kind, draft.cadence, draft.time_zone, await connection.fetchval("select now()"))
    return found if draft.active else None


async def _check_named(connection: Connection, reach: Reach, brand_id: int, draft: PlanDraft) -> None:
    row = await connection.fetchrow(
        SQL["unknown_named"], reach.tenant_id, brand_id, draft.question_ids or [], draft.platforms
    )
    assert row is not None
    for what, missing in row.items():
        if missing:
            raise NotFound(f"no {what} {', '.join(map(str, missing[:10]))}")


async def read_plan(where: Pool | Connection, reach: Reach, plan_id: int) -> Record:
    """NotFound for one that is missing or out of reach."""
    row = await where.fetchrow(SQL["read_plan"], reach.tenant_id, list(reach.workspace_ids), plan_id)
    if row is None:
        raise NotFound(f"no plan {plan_id}")
    return row


async def list_plans(pool: Pool, reach: Reach, brand_id: int | None, after: int, limit: int) -> list[Record]:
    """Of one brand or of all in reach, by id."""
    return await pool.fetch(SQL["list_plans"], reach.tenant_id, list(reach.workspace_ids), brand_id, after, limit)


async def run_plan_now(pool: Pool, reach: Reach, plan_id: int) -> None:
    """Due at once, for the next scan; its regular times stay. NotFound; Conflict for a plan that is off."""
    await read_plan(pool, reach, plan_id)
    if await pool.fetchval(SQL["run_plan_now"], reach.tenant_id, plan_id) is None:
        raise Conflict(f"plan {plan_id} is off; switch it on first")
