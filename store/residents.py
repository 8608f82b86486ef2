"""Epochs of resident loops: a frozen one that wakes up writes nothing (1-dispatch §1.9)."""

from typing import Final

from domain.errors import FencedOut
from store.database import Connection, Pool
from store.statements import statements

SQL = statements("residents")

# Between two statements of one transaction; no resident computes for so long.
FROZEN_AFTER: Final = "3s"


async def take(pool: Pool, name: str, holder: str) -> int:
    """Become the resident `name`; returns the epoch that fences every older holder."""
    epoch: int = await pool.fetchval(SQL["take_resident"], name, holder)
    return epoch


async def hold(connection: Connection, name: str, epoch: int) -> None:
    """First statement of a resident's transaction: FencedOut unless the epoch is current; it stays so until commit.

    From here on the transaction may not be idle for 3 s: the server would close its connection.
    """
    if await connection.fetchval(SQL["hold_resident"], name, epoch, FROZEN_AFTER) is None:
        raise FencedOut(f"resident {name} at epoch {epoch} was replaced")
