"""Desktop clients as their tenant manages them: register, look, rename, new token, revoke (2-desktop §2.1)."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, StringConstraints

from api.access import Operator, SignedIn
from api.fields import Body, Id, Name, PathUuid, QueryId
from api.fleet_fields import Detail, Events, InState, Login, Platform, Presence, after_cursor, next_cursor
from api.ops.versions import actor_of
from api.pages import Cursor, Limit, Page
from api.state import State
from store import clients, fleet
from store.fleet import FleetFilter, Sort

router = APIRouter(prefix="/api/desktop/clients", tags=["clients"])


class ClientNew(Body):
    """A desktop of the caller's, in one of the caller's workspaces."""

    workspace_id: Id
    name: Name
    version: Annotated[str, StringConstraints(max_length=50)] | None = None


class ClientChange(Body):
    """What a tenant may change of a desktop; slots, queue depth and pauses are the operators'."""

    name: Name


class ClientRegistered(BaseModel):
    """`token` is told this once; connect to `ws_url` with it as a bearer token, never in the URL."""

    client_id: UUID
    token: str
    ws_url: str


class Client(Presence):
    """A desktop of the caller's workspaces. `version` is its program's."""

    id: UUID
    workspace_id: int
    user_id: int
    name: str
    version: str | None


class ClientDetail(Client, Detail):
    """One desktop with its tasks and history."""


@router.post("", status_code=201)
async def register_client(state: State, principal: Operator, body: ClientNew, response: Response) -> ClientRegistered:
    """Register a desktop and get its device token. 409 `too_many_clients`, 429: the setting `clients_per_tenant`."""
    principal.require_workspace(body.workspace_id)
    made = await clients.register_client(
        state.pool,
        tenant_id=principal.tenant_id,
        workspace_id=body.workspace_id,
        user_id=principal.user_id,
        name=body.name,
        version=body.version,
    )
    response.headers["Cache-Control"] = "no-store"
    return ClientRegistered(client_id=made.client_id, token=made.token, ws_url=state.settings.hub_url)


@router.get("")
async def list_clients(
    state: State,
    principal: SignedIn,
    in_state: InState = None,
    platform: Platform = None,
    login: Login = None,
    workspace_id: QueryId = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[Client]:
    """The desktops of the caller's workspaces, newest first, revoked ones too."""
    if workspace_id is not None:
        principal.require_workspace(workspace_id)
    which = FleetFilter(
        tenant_id=principal.tenant_id,
        workspace_ids=principal.workspace_ids if workspace_id is None else [workspace_id],
        state=in_state,
        platform=platform,
        login=login,
    )
    async with state.pool.acquire() as connection:
        found = await fleet.list_clients(connection, which, after=after_cursor(cursor, Sort.NEWEST), limit=limit + 1)
    shown = [Client(version=row["program_version"], **row) for row in found[:limit]]
    return Page[Client](items=shown, next_cursor=next_cursor(found, limit, Sort.NEWEST))


@router.get("/{client_id}")
async def read_client(state: State, principal: SignedIn, client_id: PathUuid, events: Events = 20) -> ClientDetail:
    """One desktop: what runs there with its phase, what waits, the last error, what happened to it."""
    async with state.pool.acquire() as connection:
        found = await fleet.read_detail(
            connection,
            client_id,
            tenant_id=principal.tenant_id,
            workspace_ids=principal.workspace_ids,
            events=events,
        )
    return ClientDetail(version=found["program_version"], **found)


@router.patch("/{client_id}")
async def rename_client(state: State, principal: Operator, client_id: PathUuid, body: ClientChange) -> Client:
    """Give the desktop another name. 409 for a revoked one."""
    await clients.rename_client(
        state.pool,
        principal.tenant_id,
        client_id,
        body.name,
        workspace_ids=principal.workspace_ids,
        actor=actor_of(principal),
    )
    async with state.pool.acquire() as connection:
        found = await fleet.read_client(connection, client_id, tenant_id=principal.tenant_id)
    return Client(version=found["program_version"], **found)


@router.post("/{client_id}/token")
async def rotate_client_token(
    state: State, principal: Operator, client_id: PathUuid, response: Response
) -> ClientRegistered:
    """A new device token for the same desktop, told this once; the old one is over and its connection closes with 4508.

    Tasks and leases stay: the desktop goes on when it is back with the new token before they run out. Asked twice, the
    second token is the one that counts. 409 for a revoked desktop.
    """
    made = await clients.rotate_token(
        state.pool,
        principal.tenant_id,
        client_id,
        workspace_ids=principal.workspace_ids,
        actor=actor_of(principal),
    )
    response.headers["Cache-Control"] = "no-store"
    return ClientRegistered(client_id=client_id, token=made.token, ws_url=state.settings.hub_url)


@router.delete("/{client_id}", status_code=204)
async def revoke_client(state: State, principal: Operator, client_id: PathUuid) -> None:
    """End a device token for good; the connection closes and what waited or ran there goes back to the queue."""
    await clients.revoke_client(
        state.pool,
        principal.tenant_id,
        client_id,
        workspace_ids=principal.workspace_ids,
        actor=actor_of(principal),
    )
