"""`giveway desktop login`: a person signs a desktop in to a site, in a window."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from commands.common import console
from commands.desktop_site import ChromiumPath, State, check_playwright, registered_id


def login(
    site: Annotated[Path, typer.Option(help="The site's adapter.")],
    client: Annotated[str, typer.Option(help="The desktop, by id or name.")],
    state: State = Path(".giveway/desktops"),
    wait: Annotated[float, typer.Option(min=1, help="Seconds until it gives up.")] = 900.0,
    chromium: ChromiumPath = None,
) -> None:
    """Open a window on a site, wait until somebody has signed in, and keep the login for that desktop."""
    from desktop.browser.sites import load_site

    adapter, client_id = load_site(site), registered_id(state, client)
    check_playwright()
    from desktop.browser.chromium import Chromium
    from desktop.browser.health import Health
    from desktop.browser.login import log_in
    from desktop.driver import DriverFailure

    async def run() -> Health:
        browser = Chromium(chromium, headed=True)
        try:
            console.print(f"sign in to {adapter.start_url} in the window; it closes by itself then")
            return await log_in(adapter, state / client_id, browser, patience=wait)
        finally:
            await browser.close()

    try:
        health = asyncio.run(run())
    except DriverFailure as failure:
        console.print(f"[bold red]{failure.code}[/] {failure.detail}; nothing is kept")
        raise typer.Exit(1) from None
    if health is not Health.HEALTHY:
        console.print(f"[bold red]{health.value}[/] nobody has signed in; nothing is kept")
        raise typer.Exit(1)
    console.print(f"signed in; desktop {client} uses it from its next question on")
