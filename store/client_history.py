"""What happened to a desktop: the newest hundred events of each (2-desktop §2.1).

Connections, silence and logins are noted by the statements of `store/presence.py` that change them; what people do is
noted here, in their transaction.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

import asyncpg

from store.database import Connection, Pool
from store.statements import statements

SQL = statements("client_history")

# The ring's size is in the statements and in migration 0010.
HISTORY_LENGTH: Final = 100


class ClientEvent(StrEnum):
    """What kinds of events there are; the table's check names the same."""

    REGISTERED = "registered"
    # It was away, and had said goodbye or been silent for less than 30 s.
    CONNECTED = "connected"
    # A newer connection took the place of one that was open.
    REPLACED = "replaced"
    # It had been lost, or unheard of for a while, and is here again.
    BACK = "back"
    DISCONNECTED = "disconnected"
    LOST = "lost"
    REVOKED = "revoked"
    TOKEN_ROTATED = "token_rotated"
    SESSIONS_CHANGED = "sessions_changed"
    HEALTH_CHANGED = "health_changed"
    SETTINGS_CHANGED = "settings_changed"


async def note_event(
    connection: Connection,
    client_id: UUID,
    kind: ClientEvent,
    detail: Mapping[str, Any],
    *,
    close_code: int | None = None,
) -> None:
    """Add to the client's history, in the caller's transaction; the oldest of a hundred goes."""
    await connection.execute(SQL["note_event"], client_id, kind.value, close_code, dict(detail))


async def read_history(connection: Connection | Pool, client_id: UUID, limit: int) -> list[asyncpg.Record]:
    """The client's events, the newest first; the caller has checked whose client it is."""
    return await connection.fetch(SQL["read_history"], client_id, limit)
