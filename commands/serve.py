"""`giveway serve`: the REST API, the desktop hub, or both."""

from typing import Annotated

import typer

from commands.common import run_service, stop_and_hurry_on_signals


def serve(
    hub: Annotated[bool, typer.Option("--hub", help="Only the desktop hub (its probes: HUB_METRICS_PORT).")] = False,
    api: Annotated[bool, typer.Option("--api", help="Only the REST API.")] = False,
) -> None:
    """Serve the REST API and the desktop hub until SIGTERM; a second signal does not wait for anybody.

    Several processes of either kind may serve one installation: docs/how-to/run-several-hubs.md.
    """
    from server import Role, run_server
    from settings import load_settings

    asked = {role for role, wanted in ((Role.HUB, hub), (Role.API, api)) if wanted}

    async def run() -> None:
        stop, hurry = stop_and_hurry_on_signals()
        await run_server(load_settings(), stop, roles=frozenset(asked or Role), hurry=hurry)

    run_service(run)
