"""`giveway clients`: the fleet as an operator sees it, and what he does to a desktop (2-desktop §2.1)."""

import asyncio
import getpass
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer
from rich.console import RenderableType

from commands.common import Json, console, print_json
from commands.connections import open_database
from commands.plan import Tenant

if TYPE_CHECKING:
    from asyncpg import Record

    from store.database import Connection, Pool
    from store.fleet import FleetFilter, Sort

app = typer.Typer(no_args_is_help=True, help="The fleet: who is online, what runs, which logins are broken.")

ClientId = Annotated[str, typer.Argument(metavar="ID", help="A client's id, or its last 12 characters.")]
State = Annotated[str | None, typer.Option(help="online, paused, offline, lost or revoked.")]
Login = Annotated[
    str | None,
    typer.Option(metavar="[PLATFORM=]HEALTH", help="As in qwen=login_required; without a platform: of any."),
]
SortBy = Annotated[str, typer.Option("--sort", help="newest, or the worst: abort_rate, queue_depth, silence.")]
Everything = Annotated[bool, typer.Option("--all", help="Revoked ones too.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")]
Watch = Annotated[bool, typer.Option("--watch", help="Again every 2 s, until interrupted.")]
Events = Annotated[int, typer.Option(min=0, max=100, help="So many of the newest events.")]
Force = Annotated[bool, typer.Option("--force", help="Do not ask.")]

WATCH_SECONDS = 2.0

T = TypeVar("T")


@app.command("list")
def list_clients(
    tenant: Tenant = None,
    state: State = None,
    login: Login = None,
    sort: SortBy = "newest",
    everything: Everything = False,
    limit: Limit = 50,
    watch: Watch = False,
    json: Json = False,
) -> None:
    """Desktops with state, slots, queue, logins and abort rate; revoked ones only with --all."""
    from commands.clients_view import list_table

    which, order = _filter(tenant, state, login, everything), _sort(sort)

    async def read(connection: "Connection") -> list[dict[str, Any]]:
        from store.fleet import list_clients as read_list

        return await read_list(connection, which, sort=order, limit=limit)

    _show(read, list_table, lambda found: {"clients": found}, watch=watch, json=json)


def _filter(tenant: int | None, state: str | None, login: str | None, everything: bool) -> "FleetFilter":
    from store.fleet import ClientState, FleetFilter

    if state is not None and state not in set(ClientState):
        raise typer.BadParameter(f"there is no state {state!r}; known: {', '.join(ClientState)}")
    platform, given, health = (login or "").rpartition("=")
    if login is not None and (not health or (given and not platform)):
        raise typer.BadParameter("--login takes PLATFORM=HEALTH or HEALTH, as in qwen=login_required")
    return FleetFilter(
        tenant_id=tenant,
        state=None if state is None else ClientState(state),
        platform=platform or None,
        login=health or None,
        with_revoked=everything,
    )


def _sort(name: str) -> "Sort":
    from store.fleet import Sort

    if name not in set(Sort):
        raise typer.BadParameter(f"nothing is sorted by {name!r}; known: {', '.join(Sort)}")
    return Sort(name)


@app.command()
def show(client: ClientId, events: Events = 20, watch: Watch = False, json: Json = False) -> None:
    """One desktop: its state, what runs in which phase since when, what waits, and what happened to it."""
    from commands.clients_view import detail_view

    async def read(connection: "Connection") -> dict[str, Any]:
        from store.fleet import find_client, read_detail

        found = await find_client(connection, client)
        return await read_detail(connection, found["id"], events=events)

    _show(read, detail_view, lambda found: found, watch=watch, json=json)


@app.command()
def totals(tenant: Tenant = None, watch: Watch = False, json: Json = False) -> None:
    """The fleet in numbers: states, versions, hubs, logins, phases, slots."""
    from commands.clients_view import totals_view

    async def read(connection: "Connection") -> dict[str, Any]:
        from store.fleet import read_totals
        from store.settings import read_dispatch_settings

        return asdict(await read_totals(connection, await read_dispatch_settings(connection), tenant))

    _show(read, totals_view, lambda found: found, watch=watch, json=json)


@app.command()
def revoke(client: ClientId, force: Force = False, json: Json = False) -> None:
    """End a desktop's token for good: its socket closes, and what it has goes back to the queue."""

    async def work(pool: "Pool", found: "Record") -> dict[str, Any]:
        from store.clients import revoke_client

        await revoke_client(pool, found["tenant_id"], found["id"], actor=_actor())
        return {"client_id": found["id"], "revoked": True}

    done = _order(client, work, None if force else "Revoke {}? It must be registered anew to come back.")
    _tell(done, f"{done['client_id']} is revoked", json)


@app.command()
def rotate(client: ClientId, force: Force = False, json: Json = False) -> None:
    """A new device token, printed this once; the old one ends and its socket closes. Tasks and leases stay."""

    async def work(pool: "Pool", found: "Record") -> dict[str, Any]:
        from store.clients import rotate_token

        made = await rotate_token(pool, found["tenant_id"], found["id"], actor=_actor())
        return {"client_id": made.client_id, "token": made.token}

    done = _order(client, work, None if force else "The token of {} ends at once. Go on?")
    _tell(done, f"the new token of {done['client_id']}, told this once:\n{done['token']}", json)


@app.command()
def pause(
    client: ClientId,
    drain: Annotated[bool, typer.Option("--drain", help="Also take back what has not started.")] = False,
    json: Json = False,
) -> None:
    """No new work for a desktop until it is resumed; what runs finishes."""

    async def work(pool: "Pool", found: "Record") -> dict[str, Any]:
        from store import pauses
        from store.database import transaction

        target = _target(found["id"])
        async with transaction(pool) as connection:
            done = await pauses.pause(connection, target, drain=drain, actor=_actor())
        taken = done.taken_back + (await pauses.drain_rest(pool, target) if done.more else 0)
        return {"client_id": found["id"], "paused": True, "changed": done.changed, "taken_back": taken}

    done = _order(client, work)
    already = "" if done["changed"] else " already"
    _tell(done, f"{done['client_id']} is paused{already}; {done['taken_back']} tasks taken back", json)


@app.command()
def resume(client: ClientId, json: Json = False) -> None:
    """A paused desktop gets work again."""

    async def work(pool: "Pool", found: "Record") -> dict[str, Any]:
        from store import pauses
        from store.database import transaction

        async with transaction(pool) as connection:
            done = await pauses.resume(connection, _target(found["id"]), actor=_actor())
        return {"client_id": found["id"], "paused": False, "changed": done.changed}

    done = _order(client, work)
    _tell(done, f"{done['client_id']} {'gets work again' if done['changed'] else 'was not paused'}", json)


def _target(client_id: UUID) -> Any:
    from domain.pauses import PauseKind, PauseTarget

    return PauseTarget(PauseKind.CLIENT, client_id=client_id)


def _actor() -> str:
    return f"cli:{getpass.getuser()}"


def _order(
    client: str, work: "Callable[[Pool, Record], Awaitable[dict[str, Any]]]", question: str | None = None
) -> dict[str, Any]:
    """Do something to the desktop that is named; with a question, once somebody who sees which one it is has agreed."""
    from store.fleet import find_client

    if question is not None and not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to confirm on; say --force")

    async def run() -> dict[str, Any]:
        async with open_database("clients") as pool:
            found = await find_client(pool, client)
            if question is not None:
                typer.confirm(question.format(_named(found)), abort=True)
            return await work(pool, found)

    return asyncio.run(run())


def _named(client: "Record") -> str:
    return f"{client['name']!r} of tenant {client['tenant_id']} ({client['id']})"


def _tell(done: dict[str, Any], words: str, json: bool) -> None:
    if json:
        print_json(done)
    else:
        # A token must come out as it is: neither wrapped nor read as markup.
        console.print(words, markup=False, soft_wrap=True)


def _show(
    read: "Callable[[Connection], Awaitable[T]]",
    render: Callable[[T], RenderableType],
    machine: Callable[[T], Any],
    *,
    watch: bool,
    json: bool,
) -> None:
    """Read and show once, or again and again: people see one picture change, machines get an object a line."""

    async def run() -> None:
        async with open_database("clients") as pool:
            if watch and not json:
                await _watch(pool, read, render)
                return
            while True:
                async with pool.acquire() as connection:
                    found = await read(connection)
                if json:
                    print_json(machine(found))
                else:
                    console.print(render(found))
                if not watch:
                    return
                await _pause()

    asyncio.run(run())


async def _watch(
    pool: "Pool", read: "Callable[[Connection], Awaitable[T]]", render: Callable[[T], RenderableType]
) -> None:
    from rich.live import Live

    with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while True:
            async with pool.acquire() as connection:
                found = await read(connection)
            live.update(render(found), refresh=True)
            await _pause()


async def _pause() -> None:
    await asyncio.sleep(WATCH_SECONDS)
