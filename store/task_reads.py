"""Business tasks as their tenant sees them: those of a batch, of a request, or of a brand's day."""

from dataclasses import dataclass
from datetime import date
from uuid import UUID

from store.catalog import Reach, Record
from store.database import Pool
from store.statements import statements

SQL = statements("task_reads")


@dataclass(frozen=True, slots=True)
class TaskSlice:
    """Which of them: in reach, in one status or in any (None), at most `limit` by id after the given one."""

    reach: Reach
    status: str | None
    after: int
    limit: int

    @property
    def owner(self) -> tuple[int, list[int]]:
        """Tenant and workspaces."""
        return self.reach.tenant_id, list(self.reach.workspace_ids)


async def tasks_of_batch(pool: Pool, batch_id: int, part: TaskSlice) -> list[Record]:
    """Empty for a batch out of reach."""
    return await pool.fetch(SQL["tasks_of_batch"], *part.owner, batch_id, part.after, part.status, part.limit)


async def tasks_of_request(pool: Pool, request_id: UUID, part: TaskSlice) -> list[Record]:
    """What the request holds now; empty for a request out of reach."""
    return await pool.fetch(SQL["tasks_of_request"], *part.owner, request_id, part.after, part.status, part.limit)


async def tasks_of_day(pool: Pool, brand_id: int, day: date, part: TaskSlice) -> list[Record]:
    """Empty for a brand out of reach."""
    return await pool.fetch(SQL["tasks_of_day"], *part.owner, brand_id, day, part.after, part.status, part.limit)
