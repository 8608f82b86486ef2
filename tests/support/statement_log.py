"""What a store function sends to the database, and how the database goes about it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from asyncpg.connection import LoggedQuery

from store.database import Pool
from tests.support.backlog import Plan, explain

EXPLAINED = ("select", "with", "insert", "update", "delete")
# Locks and notifications by name read no table.
FUNCTIONS = ("select pg_advisory_xact_lock", "select pg_notify")


class OneConnection:
    """A pool of one connection that writes down each statement with its arguments."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.statements: dict[str, tuple[Any, ...]] = {}

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Statements in here are kept, the last arguments of each."""
        with self._connection.query_logger(self._note):
            yield
            # The driver notes a statement in the next turn of the loop.
            await asyncio.sleep(0)

    def _note(self, query: LoggedQuery) -> None:
        body = "\n".join(line for line in query.query.splitlines() if not line.startswith("--")).strip()
        if body.startswith(EXPLAINED) and not body.startswith(FUNCTIONS) and query.exception is None:
            self.statements[query.query] = tuple(query.args)

    async def acquire(self, *, timeout: float | None = None) -> Any:
        return self._connection

    async def release(self, _connection: Any) -> None:
        return None

    async def fetch(self, query: str, *arguments: Any) -> Any:
        return await self._connection.fetch(query, *arguments)

    async def fetchrow(self, query: str, *arguments: Any) -> Any:
        return await self._connection.fetchrow(query, *arguments)

    async def fetchval(self, query: str, *arguments: Any) -> Any:
        return await self._connection.fetchval(query, *arguments)


def named(statement: str) -> str:
    """The first lines of a statement, for the message of a failed test."""
    return " ".join(statement.split())[:160]


async def plans_of(pool: Pool, log: OneConnection) -> dict[str, Plan]:
    """The plan of each statement that was kept."""
    plans = {}
    for statement, arguments in log.statements.items():
        # What was done cannot be done again: such a statement is explained without being run.
        try:
            plans[named(statement)] = await explain(pool, statement, *arguments)
        except asyncpg.IntegrityConstraintViolationError:
            plans[named(statement)] = await explain(pool, statement, *arguments, run=False)
    return plans


def wasteful(plans: dict[str, Plan], large: set[str]) -> dict[str, Any]:
    """Statements that read a large table whole, or an index with a filter, which is no better."""
    return {
        name: (plan.seq_scans & large, plan.discarded)
        for name, plan in plans.items()
        if plan.seq_scans & large or plan.discarded > 1000
    }
