"""`giveway rollback-legacy`: the emergency way back to the legacy path (dispatch §16.2.3)."""

import asyncio
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from commands.common import Json, console, print_json, running_settings

if TYPE_CHECKING:
    from store.legacy_rollback import RolledBack

WARNING = (
    "This aborts every live execution task of every tenant and moves all unfinished work to the legacy path.\n"
    "Setting rollout_percent to 0 already routes new work there, and lets what runs finish: try that first."
)


def rollback_legacy(
    force: Annotated[bool, typer.Option("--force", help="Do not ask for confirmation.")] = False, json: Json = False
) -> None:
    """Abort all live execution tasks and move unfinished work to the legacy path, in one transaction."""
    if not force:
        _confirm()
    done = asyncio.run(_run())
    if json:
        print_json(asdict(done))
        return
    console.print(f"moved {done.tasks} tasks of {done.tenants} tenants to the legacy path; rollout_percent is 0")
    doing = ", ".join(f"{count} {was}" for was, count in done.executions.items()) or "none"
    console.print(f"aborted execution tasks: {doing}; {done.clients} desktops told, {done.requests} requests recounted")


def _confirm() -> None:
    """Abort without a yes; refused where nobody can give one."""
    if not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to confirm on; say --force")
    console.print(WARNING)
    typer.confirm("Roll back now?", abort=True)


async def _run() -> "RolledBack":
    from store.database import open_pool
    from store.legacy_rollback import roll_back

    pool = await open_pool(running_settings().database_url, size=1, name="giveway-rollback", command_timeout=1000)
    try:
        return await roll_back(pool, actor="giveway rollback-legacy")
    finally:
        await pool.close()
