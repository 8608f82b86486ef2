"""The share and budget of a tenant, the limits of a desktop."""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from api.access import Ops
from api.fields import Body, Flag, PathId, PathUuid
from api.ops.clients import Client, client_of
from api.ops.versions import VERSIONED, Expected, actor_of, show_version
from api.pages import Cursor, Limit, Page, decode_cursor, id_part, page_of
from api.state import State
from store import fleet, ops_settings
from store.database import transaction
from store.ops_settings import ClientChange, TenantChange

router = APIRouter()


class Tenant(BaseModel):
    """A tenant's part of the dispatcher; `dispatch_per_minute` null: the general setting."""

    id: int
    name: str
    fair_weight: int
    dispatch_per_minute: int | None
    paused: bool
    version: int


class TenantPut(Body):
    """All of it. A weight of 2 gets twice the scheduled work of a weight of 1 while both wait."""

    fair_weight: Annotated[int, Field(strict=True, ge=1, le=1000)]
    dispatch_per_minute: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None
    paused: Flag


class ClientPut(Body):
    """All of it; null: what the desktop says of itself, or the general setting."""

    max_concurrent: Annotated[int, Field(strict=True, ge=1, le=64)] | None
    max_queue_depth: Annotated[int, Field(strict=True, ge=1, le=1000)] | None
    paused: Flag


@router.get("/tenants")
async def ops_list_tenants(state: State, _principal: Ops, cursor: Cursor = None, limit: Limit = 50) -> Page[Tenant]:
    """Tenants by id."""
    found = decode_cursor(cursor, id_part)
    async with state.pool.acquire() as connection:
        rows = await ops_settings.list_tenants(connection, None if found is None else found[0], limit + 1)
    return page_of(Tenant, rows, limit)


@router.get("/tenants/{tenant_id}", responses=VERSIONED)
async def ops_read_tenant(state: State, _principal: Ops, tenant_id: PathId, response: Response) -> Tenant:
    """One tenant."""
    async with state.pool.acquire() as connection:
        row = await ops_settings.read_tenant(connection, tenant_id)
    show_version(response, row["version"])
    return Tenant(**row)


@router.put("/tenants/{tenant_id}", responses=VERSIONED)
async def ops_change_tenant(
    state: State, principal: Ops, tenant_id: PathId, expected: Expected, body: TenantPut, response: Response
) -> Tenant:
    """Replace a tenant's share, budget and pause."""
    change = TenantChange(**body.model_dump())
    async with transaction(state.pool) as connection:
        row = await ops_settings.write_tenant(
            connection, tenant_id, change, actor=actor_of(principal), expected=expected
        )
    show_version(response, row["version"])
    return Tenant(**row)


@router.put("/clients/{client_id}", responses=VERSIONED)
async def ops_change_client(
    state: State, principal: Ops, client_id: PathUuid, expected: Expected, body: ClientPut, response: Response
) -> Client:
    """Replace a desktop's limits and pause; slots given here outlast what the desktop says of itself."""
    change = ClientChange(**body.model_dump())
    async with transaction(state.pool) as connection:
        await ops_settings.write_client(connection, client_id, change, actor=actor_of(principal), expected=expected)
        found = client_of(await fleet.read_client(connection, client_id))
    show_version(response, found.version)
    return found
