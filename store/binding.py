"""Binding a request's waiting tasks to a client after the accept (1-dispatch §1.5: "when a client is bound later")."""

from collections.abc import Mapping
from uuid import UUID

import asyncpg

from domain.client_choice import ClientState, choose_for_request, may_take
from domain.dispatch_settings import DispatchSettings
from domain.messages import SignalName, collect_now_workflow_id
from store.client_choice import blocked_platforms, lock_client, open_to_high, read_clients
from store.database import Connection
from store.hints import judge_platforms
from store.listen import DISPATCH, wake
from store.outbox import signal, write_outbox
from store.preemption import Preemptor, RoomMade, lock_requests, lock_tasks, make_room
from store.settings import PlatformLimits, read_dispatch_settings, read_platform_limits
from store.statements import statements

SQL, LOCKS = statements("binding"), statements("locks")


async def bind_request(connection: Connection, request_id: UUID, tenant_id: int) -> UUID | None:
    """Bind the waiting tasks to the best online client and run steps 4, 6 and 7 there; None when there is none.

    Idempotent: with nothing left to bind it changes nothing. Tasks on a platform that the client is not logged in to
    are left for another one, and what is paused until it is resumed. The caller gives the transaction.
    """
    await connection.execute(LOCKS["lock_tenant_requests"], tenant_id)
    settings = await read_dispatch_settings(connection)
    limits = await read_platform_limits(connection, settings)
    platforms = await open_to_high(connection, tenant_id, settings, limits)
    request = await connection.fetchrow(SQL["read_unbound"], request_id, tenant_id, sorted(platforms))
    if request is None:
        return None
    chosen = await _choose(connection, request, tenant_id, settings, limits)
    if chosen is None:
        return None
    generation = await connection.fetchval(LOCKS["next_generation"], tenant_id)
    await lock_client(connection, chosen)
    legacy = await lock_tasks(connection, request["task_ids"], chosen.client_id)
    await lock_requests(connection, request_id, chosen.client_id)
    bound = await connection.fetchval(
        SQL["bind_waiting"], request["task_ids"], request_id, chosen.client_id, generation, sorted(chosen.logged_out)
    )
    if not bound:
        return None
    preemptor = Preemptor(tenant_id, request_id, chosen.client_id, generation, bound, legacy)
    room = await make_room(connection, preemptor, settings) if request["preempt"] else RoomMade(0, 0)
    await _record(connection, preemptor, room)
    return chosen.client_id


async def _choose(
    connection: Connection,
    request: asyncpg.Record,
    tenant_id: int,
    settings: DispatchSettings,
    limits: Mapping[str, PlatformLimits],
) -> ClientState | None:
    """The desktop that the accept has named, as long as it can take some of it; else the best."""
    clients = await read_clients(connection, tenant_id, request["workspace_id"], settings)
    for client in clients:
        if client.client_id == request["target_client_id"] and may_take(client, request["platforms"]):
            return client
    blocked = await blocked_platforms(connection, tenant_id, limits)
    return choose_for_request(clients, request["platforms"], blocked)


async def _record(connection: Connection, preemptor: Preemptor, room: RoomMade) -> None:
    await connection.execute(
        SQL["record_binding"], preemptor.request_id, preemptor.client_id, preemptor.generation, room.interrupted
    )
    payload = {
        "client_id": str(preemptor.client_id),
        "generation": preemptor.generation,
        "interrupts": room.interrupted,
    }
    workflow = collect_now_workflow_id(preemptor.request_id)
    await write_outbox(connection, [signal(workflow, SignalName.CLIENT_BOUND, payload, preemptor.tenant_id)])
    await judge_platforms(connection, [preemptor.request_id])
    await wake(connection, DISPATCH)
