"""`giveway desktop`: reference desktops, and what a desktop team checks its own client or hub with."""

from pathlib import Path
from typing import Annotated

import typer

from commands.common import run_service, running_settings, stop_on_signals

app = typer.Typer(help="Run reference desktops until SIGTERM; sub-commands check a client or a hub.")


@app.callback(invoke_without_command=True)
def desktop(
    context: typer.Context,
    api: Annotated[str | None, typer.Option(help="Base address of the API; without it the running stack's.")] = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many desktops in this process.")] = 1,
    driver: Annotated[str, typer.Option(help="replay")] = "replay",
    answers: Annotated[Path | None, typer.Option(help="A folder of recorded answers; without it the samples.")] = None,
    speed: Annotated[float, typer.Option(min=0, help="How much faster than a real desktop; 0 takes no time.")] = 1.0,
    state: Annotated[Path, typer.Option(help="Where tokens and unsent results are kept.")] = Path(".giveway/desktops"),
    token: Annotated[str | None, typer.Option(envvar="GIVEWAY_TOKEN", help="A user's token, to register.")] = None,
    workspace: Annotated[int | None, typer.Option(help="The workspace to register in.")] = None,
) -> None:
    """Run reference desktops until SIGTERM; they register once and keep their device tokens."""
    if context.invoked_subcommand is not None:
        return
    from desktop.program import Fleet, run_desktops
    from desktop.recorded import load_answers, samples_folder
    from desktop.replay import ReplayDriver

    if driver != "replay":
        raise typer.BadParameter(f"there is no driver {driver!r}; known: replay")
    replay = ReplayDriver(load_answers(answers or samples_folder()), speed=speed)
    fleet = Fleet(
        api or f"http://127.0.0.1:{running_settings().api_port}",
        state,
        count,
        replay,
        workspace_id=workspace,
        user_token=token,
    )

    async def run() -> None:
        if await run_desktops(fleet, stop_on_signals()):
            raise typer.Exit(1)

    run_service(run)
