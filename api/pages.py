"""Cursor pages: an opaque cursor names the last row seen, so that inserts move no page."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Generic, TypeVar
from uuid import UUID

import asyncpg
import orjson
from fastapi import Query
from pydantic import BaseModel

from api.fields import INT64_MAX
from domain.errors import InvalidInput

MAX_PAGE: Final = 100

T = TypeVar("T", bound=BaseModel)

Cursor = Annotated[str | None, Query(max_length=200, description="`next_cursor` of the page before")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]


class Page(BaseModel, Generic[T]):
    """One page; `next_cursor` is null on the last."""

    items: list[T]
    next_cursor: str | None = None


def page_of(model: type[T], rows: Sequence[asyncpg.Record], limit: int, key: tuple[str, ...] = ("id",)) -> Page[T]:
    """A page from at most `limit + 1` rows; the extra one only says that there are more."""
    shown = rows[:limit]
    more = encode_cursor(*(shown[-1][name] for name in key)) if len(rows) > limit else None
    return Page[model](items=[model(**row) for row in shown], next_cursor=more)  # type: ignore[valid-type]


def encode_cursor(*values: Any) -> str:
    """The values as opaque text, fit for a URL."""
    return urlsafe_b64encode(orjson.dumps(values, default=str)).decode().rstrip("=")


def decode_cursor(cursor: str | None, *parse: Callable[[Any], Any]) -> list[Any] | None:
    """The values again, each through its parser; None without a cursor. InvalidInput for one that is not ours."""
    if cursor is None:
        return None
    try:
        values = orjson.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        return [read(value) for read, value in zip(parse, values, strict=True)]
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise InvalidInput("the cursor is not one of ours; start again without it") from None


def id_part(value: Any) -> int:
    """Parser of an int64 id."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= INT64_MAX:
        raise ValueError(value)
    return value


def time_part(value: Any) -> datetime:
    """Parser of an aware time."""
    found = datetime.fromisoformat(value)
    if found.tzinfo is None:
        raise ValueError(value)
    return found


def uuid_part(value: Any) -> UUID:
    """Parser of a uuid."""
    return UUID(value)
