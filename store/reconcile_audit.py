"""What reconcile mends is told in the audit, one row each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from store.database import Connection
from store.statements import statements

SQL = statements("reconcile")


@dataclass(frozen=True, slots=True)
class Fix:
    """One row mended: whose, what (`table id`), and what an operator may want to know of it."""

    tenant_id: int
    subject: str
    detail: Mapping[str, Any] = field(default_factory=dict)


async def record_fixes(connection: Connection, kind: str, fixes: Iterable[Fix]) -> int:
    """Write them as `reconcile.{kind}` in the transaction that mends them; returns how many."""
    given = list(fixes)
    if given:
        await connection.execute(
            SQL["record_fixes"],
            f"reconcile.{kind}",
            [fix.tenant_id for fix in given],
            [fix.subject for fix in given],
            [dict(fix.detail) for fix in given],
        )
    return len(given)
