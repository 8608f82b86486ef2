"""HTTP calls that a page of a desktop makes for the server (2-desktop §2.1, 4-automation; ADR 0054).

Open a call in a transaction, commit, then wait for its answer, without a transaction. The row is the truth: frames are
hints, a snapshot repeats the calls that wait, and the database's clock alone says when one is over.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final
from uuid import UUID

import asyncpg
import msgspec

from domain.errors import InvalidInput, NotFound
from domain.hub_port import ClientIdentity
from domain.protocol import ProxyRequest, encode_bytes, holds_nul
from domain.proxying import (
    MAX_REQUEST_BYTES,
    MAX_TIMEOUT_MS,
    MAX_URL,
    PROXY_UNSUPPORTED,
    AnswerOutcome,
    ProxyAnswer,
)
from store.database import Connection, Pool
from store.listen import PROXY, Listener, wait_for_wake
from store.outbox import dispatch_event, write_outbox
from store.statements import statements

SQL = statements("proxy_calls")

# A NOTIFY that was lost costs this much latency.
POLL_SECONDS: Final = 1.0
# More than one desktop is ever asked at once; the rest comes with the next snapshot.
OPEN_LIMIT: Final = 100
SWEEP_LIMIT: Final = 500
_METHOD: Final = re.compile(r"[A-Z]{1,16}")
# What is in columns of its own, or is told anew to every connection.
_NOT_STORED: Final = ("id", "platform", "timeout_ms")


async def open_call(connection: Connection, client: ClientIdentity, request: ProxyRequest) -> bool:
    """Ask the client's page, `request.timeout_ms` long from this transaction's start; sent once it has committed.

    `request.id` is the call's id, chosen by the asker: one that is open, or was, is left as it is (False), so that an
    asker which does not know whether it had asked may do it again. A client that is offline is asked when it connects.
    Raises InvalidInput, also for an id that another client's call has; NotFound for a client that is revoked or
    another tenant's.
    """
    call_id = _checked(request)
    stored = {key: value for key, value in msgspec.structs.asdict(request).items() if key not in _NOT_STORED}
    opened = await connection.fetchval(
        SQL["open_call"],
        call_id,
        client.tenant_id,
        client.client_id,
        request.platform,
        stored,
        request.timeout_ms,
    )
    if opened is None:
        raise NotFound(f"no client {client.client_id}")
    if opened == "taken":
        raise InvalidInput(f"the id {call_id} is another client's call")
    if opened == "opened":
        payload = {"client_id": str(client.client_id), "call_id": str(call_id)}
        key = f"control.{client.client_id}"
        event = dispatch_event("proxy_request", key, payload, client.tenant_id, client.client_id)
        await write_outbox(connection, [event])
    return bool(opened == "opened")


def _checked(request: ProxyRequest) -> UUID:
    if not _METHOD.fullmatch(request.method):
        raise InvalidInput("`method` is no HTTP method")
    if not 1 <= request.timeout_ms <= MAX_TIMEOUT_MS:
        raise InvalidInput(f"`timeout_ms` is 1 to {MAX_TIMEOUT_MS}")
    if not 1 <= len(request.url) <= MAX_URL:
        raise InvalidInput(f"`url` has 1 to {MAX_URL} characters")
    try:
        call_id, encoded = UUID(request.id), encode_bytes(request)
    except ValueError as error:
        raise InvalidInput(f"the request cannot be sent: {error}") from error
    if len(encoded) > MAX_REQUEST_BYTES:
        raise InvalidInput(f"a request has at most {MAX_REQUEST_BYTES} bytes as a frame")
    if holds_nul(encoded.decode()):
        raise InvalidInput("the request holds the character U+0000")
    return call_id


async def await_call(pool: Pool, listener: Listener, call_id: UUID) -> ProxyAnswer | None:
    """The answer, as soon as it is there; None once the deadline has passed without one, so that none can come later.

    Holds no connection while it waits. Raises NotFound for an id that was never opened, or over a day ago, and what
    asyncpg raises when the database is away: waiting again is safe.
    """
    event = listener.subscribe(PROXY)
    try:
        while True:
            row = await pool.fetchrow(SQL["read_call"], call_id)
            if row is None:
                raise NotFound(f"no proxy call {call_id}")
            if row["state"] != "waiting":
                return _answer(row["answer"])
            if row["left"] <= 0:
                await pool.execute(SQL["expire_call"], call_id)
            else:
                await wait_for_wake(event, min(POLL_SECONDS, row["left"]))
    finally:
        listener.unsubscribe(PROXY, event)


def _answer(stored: dict[str, Any] | None) -> ProxyAnswer | None:
    return None if stored is None else ProxyAnswer(**stored)


async def read_open(
    executor: Connection | Pool, client: ClientIdentity, epoch: int, call_ids: Sequence[UUID] | None = None
) -> list[ProxyRequest]:
    """What the client's connection of this epoch is to be asked now, the oldest first; only these, or all."""
    only = None if call_ids is None else list(call_ids)
    rows = await executor.fetch(SQL["open_calls"], client.client_id, client.tenant_id, epoch, only, OPEN_LIMIT)
    return [_request(row) for row in rows]


def _request(row: asyncpg.Record) -> ProxyRequest:
    known = {"id": str(row["id"]), "platform": row["platform"], "timeout_ms": row["left_ms"], "type": "proxy_request"}
    # Written by a newer version it may have fields that this one does not know.
    return msgspec.convert({**row["request"], **known}, ProxyRequest)


async def answer_call(pool: Pool, client: ClientIdentity, call_id: UUID, answer: ProxyAnswer) -> AnswerOutcome:
    """The client's answer, whose form was checked (`ProxyAnswer.fault`). One statement; again it changes nothing."""
    kept = asdict(answer.without_login())
    outcome = await pool.fetchval(SQL["answer_call"], call_id, client.client_id, client.tenant_id, kept, PROXY)
    return AnswerOutcome.UNKNOWN if outcome is None else AnswerOutcome(outcome)


async def refuse_calls(pool: Pool, client: ClientIdentity, epoch: int, call_ids: Sequence[UUID]) -> None:
    """End them at once: the client's connection of this epoch cannot be asked."""
    answer = ProxyAnswer(error=PROXY_UNSUPPORTED, message="the desktop's program cannot make calls for the server")
    await pool.execute(
        SQL["refuse_calls"], client.client_id, client.tenant_id, epoch, list(call_ids), asdict(answer), PROXY
    )


async def sweep(connection: Connection) -> int:
    """End what nobody waited for, delete what is over for a day; how many rows it changed. Bounded."""
    changed: int = await connection.fetchval(SQL["sweep_calls"], SWEEP_LIMIT)
    return changed
