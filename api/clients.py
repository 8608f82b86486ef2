"""Desktop clients as their tenant manages them: register, list, revoke (2-desktop §2.1)."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, StringConstraints

from api.access import Operator, SignedIn
from api.fields import Body, Id, Name, PathUuid
from api.pages import Cursor, Limit, Page, decode_cursor, encode_cursor, id_part
from api.state import State
from domain.errors import NotFound
from store import clients

router = APIRouter(prefix="/api/desktop/clients", tags=["clients"])


class ClientNew(Body):
    """A desktop of the caller's, in one of the caller's workspaces."""

    workspace_id: Id
    name: Name
    version: Annotated[str, StringConstraints(max_length=50)] | None = None


class ClientRegistered(BaseModel):
    """`token` is told this once; connect to `ws_url` with it as a bearer token, never in the URL."""

    client_id: UUID
    token: str
    ws_url: str


class Client(BaseModel):
    """A desktop and its presence. `running` and `queued` count monitor tasks."""

    id: UUID
    workspace_id: int
    user_id: int
    name: str
    online: bool
    healthy: bool
    paused: bool
    last_heartbeat_at: datetime | None
    max_concurrent: int | None
    platform_sessions: dict[str, Any]
    version: str | None
    revoked_at: datetime | None
    created_at: datetime
    running: int
    queued: int


@router.post("", status_code=201)
async def register_client(state: State, principal: Operator, body: ClientNew, response: Response) -> ClientRegistered:
    """Register a desktop and get its device token."""
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
async def list_clients(state: State, principal: SignedIn, cursor: Cursor = None, limit: Limit = 50) -> Page[Client]:
    """The desktops of the caller's workspaces, newest first, revoked ones too."""
    found = decode_cursor(cursor, id_part)
    start = 0 if found is None else int(found[0])
    views = await clients.list_clients(state.pool, principal.tenant_id, principal.workspace_ids)
    shown = [Client.model_validate(view, from_attributes=True) for view in views[start : start + limit]]
    more = encode_cursor(start + limit) if len(views) > start + limit else None
    return Page[Client](items=shown, next_cursor=more)


@router.delete("/{client_id}", status_code=204)
async def revoke_client(state: State, principal: Operator, client_id: PathUuid) -> None:
    """End a device token; the connection closes and what waited there goes back to the queue."""
    views = await clients.list_clients(state.pool, principal.tenant_id, principal.workspace_ids)
    if all(view.id != client_id for view in views):
        raise NotFound(f"no client {client_id}")
    await clients.revoke_client(state.pool, principal.tenant_id, client_id)
