"""Whether a running installation works, not only answers: residents that beat, results that are served."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

import aio_pika
import asyncpg
from aio_pika.exceptions import AMQPError, ChannelNotFoundEntity
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client
from temporalio.service import RPCError

from devstack import probes
from devstack.check import Check
from devstack.record import Endpoints
from domain.messages import resident_workflow_id
from domain.transport import INGEST_DEAD_LETTER_QUEUE, ingest_queue
from store.vitals import Vitals, read_vitals

# A resident beats every 1.5 s and is moved after 5; clocks of two machines may differ.
SILENT_SECONDS = 30.0
# Results are ingested within a second or two. What is older waits for something.
UNSERVED_SECONDS = 60.0
_LIMIT = 10.0

_WORKER = "start the worker, or restart a frozen one (`giveway worker`; its log says more): nothing is lost meanwhile"


async def check_vitals(endpoints: Endpoints, environ: Mapping[str, str]) -> list[Check]:
    """Nothing where there is no schema yet, or a server is away: other checks say that."""
    try:
        vitals = await read_vitals(endpoints.database_url)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return []
    if vitals is None or not vitals.residents:
        return []
    residents = _residents(endpoints, vitals)
    shards = environ.get("INGEST_SHARDS", "")
    queues = _queues(endpoints.amqp_url, environ.get("AMQP_PREFIX", ""), int(shards) if shards.isdecimal() else 8)
    silent, found = await asyncio.gather(residents, queues)
    checks = [] if silent is None else [silent]
    return [*checks, *([] if found is None else _ingest(found, vitals)), _projections(vitals)]


async def _residents(endpoints: Endpoints, vitals: Vitals) -> Check | None:
    client = await probes.temporal_client(endpoints.temporal_address, endpoints.temporal_namespace)
    if client is None:
        return None
    ages = await asyncio.gather(*(_beat(client, name) for name in vitals.residents))
    silent = [name for name, age in zip(vitals.residents, ages, strict=True) if age is None or age > SILENT_SECONDS]
    if not silent:
        return Check("residents", True, f"all {len(ages)} beat, the slowest {max(age or 0 for age in ages):.0f} s ago")
    shown = ", ".join(silent[:6]) + (" …" if len(silent) > 6 else "")
    return Check("residents", False, f"{len(silent)} of {len(ages)} are silent: {shown}", _WORKER)


async def _beat(client: Client, name: str) -> float | None:
    """Seconds since a resident's last heartbeat; None while no worker runs it."""
    role, _, shard = name.partition("/")
    try:
        async with asyncio.timeout(_LIMIT):
            found = await client.get_workflow_handle(resident_workflow_id(role, int(shard))).describe()
    except (RPCError, TimeoutError, ValueError):
        return None
    for activity in found.raw_description.pending_activities:
        if activity.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED:
            beaten = activity.last_heartbeat_time if activity.HasField("last_heartbeat_time") else None
            last = beaten or activity.last_started_time
            return max(time.time() - last.ToMilliseconds() / 1000, 0.0)
    return None


@dataclass(frozen=True, slots=True)
class _Queues:
    """Ready messages by shard; shards where some wait and nobody consumes; dead letters."""

    waiting: dict[int, int]
    unserved: list[int]
    dead: int


async def _queues(url: str, prefix: str, shards: int) -> _Queues | None:
    """None where the broker does not answer, or has no such queues."""
    try:
        async with asyncio.timeout(_LIMIT):
            connection = await aio_pika.connect(url, timeout=_LIMIT)
            async with connection, connection.channel() as channel:
                waiting, unserved = {}, []
                for shard in range(shards):
                    queue = await channel.declare_queue(prefix + ingest_queue(shard), passive=True)
                    waiting[shard] = queue.declaration_result.message_count or 0
                    if waiting[shard] and not queue.declaration_result.consumer_count:
                        unserved.append(shard)
                dead = await channel.declare_queue(prefix + INGEST_DEAD_LETTER_QUEUE, passive=True)
                return _Queues(waiting, unserved, dead.declaration_result.message_count or 0)
    except (ChannelNotFoundEntity, AMQPError, OSError, TimeoutError):
        return None


def _ingest(queues: _Queues, vitals: Vitals) -> list[Check]:
    busy = sum(count > 0 for count in queues.waiting.values())
    total, age = sum(queues.waiting.values()), vitals.oldest_result
    detail = f"{total} results wait in {busy} of {len(queues.waiting)} shards, the oldest for {age:.0f} s"
    fix = ""
    if queues.unserved:
        fix = f"nobody consumes shard {', '.join(map(str, queues.unserved))}: {_WORKER}"
    elif age > UNSERVED_SECONDS:
        fix = "the worker's log says what it waits for (`waits`): database, object store, or a defect of ours"
    dead = f"{queues.dead} results were given up"
    return [
        Check("ingest", not fix, detail, fix),
        Check("dead letters", True, dead, "`giveway dlq list` shows their reasons" if queues.dead else ""),
    ]


def _projections(vitals: Vitals) -> Check:
    late = vitals.oldest_projection > UNSERVED_SECONDS
    detail = f"the oldest day waits for {vitals.oldest_projection:.0f} s, {vitals.parked_projections} were given up"
    listing = "`giveway dlq list --queue projection` shows their errors" if vitals.parked_projections else ""
    return Check("projections", not late, detail, _WORKER if late else listing)
