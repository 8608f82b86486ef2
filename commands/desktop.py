"""`giveway desktop`: reference desktops, and what a desktop team checks its own client or hub with."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from commands.common import run_service, running_settings, stop_and_hurry_on_signals
from commands.desktop_conformance import conformance
from commands.desktop_login import login
from commands.desktop_options import DriverChoice, open_drivers_of
from commands.desktop_schemas import schemas
from commands.desktop_site import app as site_app
from commands.desktop_site import practice_site
from desktop.drivers import DriverKind
from desktop.openai.endpoints import Style

app = typer.Typer(help="Run reference desktops until SIGTERM; sub-commands check a client or a hub.")
app.command("conformance")(conformance)
app.command("schemas")(schemas)
app.add_typer(site_app, name="site")
app.command("practice-site")(practice_site)
app.command("login")(login)

T = TypeVar("T")
INTERRUPTED: Final = 130
API, REPLAY, BROWSER = "Driver api", "Driver replay", "Driver browser"


@app.callback(invoke_without_command=True)
def desktop(
    context: typer.Context,
    api: Annotated[str | None, typer.Option(help="Base address of the API; without it the running stack's.")] = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many desktops in this process.")] = 1,
    concurrent: Annotated[int, typer.Option(min=1, max=64, help="Questions that one desktop runs at once.")] = 2,
    driver: Annotated[DriverKind, typer.Option(help="What answers the questions.")] = DriverKind.REPLAY,
    state: Annotated[Path, typer.Option(help="Where tokens and unsent results are kept.")] = Path(".giveway/desktops"),
    token: Annotated[str | None, typer.Option(envvar="GIVEWAY_TOKEN", help="A user's token, to register.")] = None,
    workspace: Annotated[int | None, typer.Option(help="The workspace to register in.")] = None,
    finish: Annotated[
        bool, typer.Option(help="At the end, let running questions finish; else give them back.")
    ] = False,
    answers: Annotated[
        Path | None,
        typer.Option(help="A folder of recorded answers; without it the samples.", rich_help_panel=REPLAY),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(
            min=0, help="How much faster than a real desktop; 0 takes no time; 1 by default.", rich_help_panel=REPLAY
        ),
    ] = None,
    endpoints: Annotated[
        Path | None, typer.Option(help="A file of endpoints by platform.", rich_help_panel=API)
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="One endpoint for every platform, as https://host/v1.", rich_help_panel=API)
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model of --base-url.", rich_help_panel=API)] = None,
    style: Annotated[Style | None, typer.Option(help="What it speaks; chat by default.", rich_help_panel=API)] = None,
    key_env: Annotated[
        str | None, typer.Option(help="The environment variable that holds its key.", rich_help_panel=API)
    ] = None,
    key_file: Annotated[Path | None, typer.Option(help="The file that holds its key.", rich_help_panel=API)] = None,
    stream: Annotated[
        bool | None, typer.Option("--stream/--no-stream", help="Ask for a stream; by default not.", rich_help_panel=API)
    ] = None,
    sites: Annotated[
        Path | None, typer.Option(help="A folder of site adapters, or one.", rich_help_panel=BROWSER)
    ] = None,
    headed: Annotated[bool | None, typer.Option("--headed", help="Show the windows.", rich_help_panel=BROWSER)] = None,
    chromium: Annotated[
        Path | None, typer.Option(help="The Chromium to run; without it the system's.", rich_help_panel=BROWSER)
    ] = None,
) -> None:
    """Run reference desktops until SIGTERM; they register once and keep their device tokens.

    A second signal ends at once: results that are not accepted yet are sent at the next start.
    """
    if context.invoked_subcommand is not None:
        return
    from desktop.program import Fleet, run_desktops

    choice = DriverChoice(
        driver,
        state,
        answers,
        speed,
        endpoints,
        base_url,
        model,
        style,
        key_env,
        key_file,
        stream,
        sites,
        headed,
        chromium,
    )
    fleet = Fleet(
        api_url=(api or f"http://127.0.0.1:{running_settings().api_port}").rstrip("/"),
        state_dir=state,
        count=count,
        drivers=open_drivers_of(choice),
        workspace_id=workspace,
        user_token=token,
        max_concurrent=concurrent,
        finish=finish,
    )

    async def run() -> None:
        stop, hurry = stop_and_hurry_on_signals()
        if await _until(hurry, run_desktops(fleet, stop)):
            raise typer.Exit(1)

    run_service(run)


async def _until(hurry: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """What the work returns; once `hurry` is set it is cancelled, and the process ends as an interrupted one."""
    working, hurrying = asyncio.create_task(work), asyncio.create_task(hurry.wait())
    await asyncio.wait({working, hurrying}, return_when=asyncio.FIRST_COMPLETED)
    hurrying.cancel()
    if not working.done():
        working.cancel()
        await asyncio.wait({working})
        raise typer.Exit(INTERRUPTED)
    return working.result()
