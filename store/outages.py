"""A database that is away, in the words of the domain."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

import asyncpg

from domain.errors import DatabaseUnavailable

P = ParamSpec("P")
T = TypeVar("T")

# The server stops, is full, is gone, or gave way to another transaction; the driver lost it in mid-statement.
AWAY: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)


def is_away(error: Exception) -> bool:
    """Whether the same call may succeed later."""
    if isinstance(error, asyncpg.InterfaceError):
        # What the driver says of a connection that was closed under a transaction. A value that it cannot send is of
        # this family too, and a ValueError.
        return not isinstance(error, ValueError)
    return isinstance(error, AWAY)


def as_unavailable(call: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The same call, which raises DatabaseUnavailable where the database is away; the rest passes."""

    @wraps(call)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await call(*args, **kwargs)
        except Exception as error:
            if not is_away(error):
                raise
            raise DatabaseUnavailable(f"PostgreSQL is away: {error!r}") from error

    return guarded
