"""The fleet over all tenants: desktops by filter and measure, one in detail, totals (2-desktop §2.1)."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel

from api.access import Ops
from api.fields import PathUuid, QueryId
from api.fleet_fields import Detail, Event, Events, InState, Login, Platform, Presence, after_cursor, next_cursor
from api.ops.versions import VERSIONED, show_version
from api.pages import Cursor, Limit, Page
from api.state import State
from store import fleet
from store.fleet import ClientState, FleetFilter, Sort
from store.settings import read_dispatch_settings

router = APIRouter()

SortBy = Annotated[
    Sort, Query(description="newest first, or the worst: highest abort rate, most waiting, longest silence")
]


class Client(Presence):
    """A desktop of any tenant. `version`: of its limits, for If-Match; the program's is `program_version`."""

    id: UUID
    tenant_id: int
    workspace_id: int
    user_id: int
    name: str
    hub: str | None
    lost_at: datetime | None
    connection_epoch: int
    max_queue_depth: int | None
    program_version: str | None
    version: int
    high: int
    ended: int
    aborted: int
    succeeded: int


class OpsEvent(Event):
    """With the hub instance that the desktop was connected to."""

    hub: str | None


class ClientDetail(Client, Detail):
    """One desktop with its tasks and history."""

    history: list[OpsEvent]  # type: ignore[assignment]


class Fleet(BaseModel):
    """The fleet in numbers: `states` of all desktops; the rest of those that are online, paused ones too.

    `logins` by platform and health as the desktops say; of versions and hubs the 20 with the most, then `other`.
    """

    states: dict[ClientState, int]
    versions: dict[str, int]
    hubs: dict[str, int]
    logins: dict[str, dict[str, int]]
    phases: dict[str, int]
    slots_used: int
    slots_total: int
    queued: int


def client_of(view: dict[str, Any]) -> Client:
    """A desktop as `store.fleet` reads it."""
    return Client(version=view["settings_version"], **view)


@router.get("/clients")
async def ops_list_clients(
    state: State,
    _principal: Ops,
    tenant_id: QueryId = None,
    in_state: InState = None,
    online: Annotated[bool, Query(description="Only those online, paused ones too")] = False,
    platform: Platform = None,
    login: Login = None,
    sort: SortBy = Sort.NEWEST,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[Client]:
    """Desktops of all tenants, or of one. Sorted by a measure, revoked ones are left out unless `state=revoked`."""
    which = FleetFilter(
        tenant_id=tenant_id,
        state=in_state,
        online=online,
        platform=platform,
        login=login,
        with_revoked=sort is Sort.NEWEST,
    )
    async with state.pool.acquire() as connection:
        found = await fleet.list_clients(
            connection, which, sort=sort, after=after_cursor(cursor, sort), limit=limit + 1
        )
    shown = [client_of(row) for row in found[:limit]]
    return Page[Client](items=shown, next_cursor=next_cursor(found, limit, sort))


@router.get("/clients/{client_id}", responses=VERSIONED)
async def ops_read_client(
    state: State, _principal: Ops, client_id: PathUuid, response: Response, events: Events = 20
) -> ClientDetail:
    """One desktop with its load, its tasks and what happened to it."""
    async with state.pool.acquire() as connection:
        found = await fleet.read_detail(connection, client_id, events=events)
    show_version(response, found["settings_version"])
    return ClientDetail(version=found["settings_version"], **found)


@router.get("/fleet")
async def ops_read_fleet(state: State, _principal: Ops, tenant_id: QueryId = None) -> Fleet:
    """The fleet in numbers, over all tenants or of one."""
    async with state.pool.acquire() as connection:
        totals = await fleet.read_totals(connection, await read_dispatch_settings(connection), tenant_id)
    return Fleet.model_validate(totals, from_attributes=True)
