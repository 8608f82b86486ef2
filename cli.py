"""The `giveway` command. Exit codes: 0 done, 1 failed (the message says what to do), 2 wrong usage, 130 interrupted."""

import asyncio
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.markup import escape
from typer.exceptions import TyperException

from commands.badcases import app as badcases_app
from commands.batch import app as batch_app
from commands.bench import bench
from commands.clients import app as clients_app
from commands.common import Json, console, print_json, run_service, running_settings, stop_on_signals
from commands.desktop import app as desktop_app
from commands.dlq import app as dlq_app
from commands.explain import explain
from commands.parse import parse
from commands.plan import app as plan_app
from commands.reconcile import reconcile
from commands.reparse import reparse
from commands.rollback_legacy import rollback_legacy
from commands.serve import serve
from commands.settings import app as settings_app
from commands.simulate import simulate
from commands.tune import tune
from leave import leave

app = typer.Typer(no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False, help=__doc__)


@app.command()
def migrate() -> None:
    """Bring the database to the newest schema; running it again changes nothing."""
    from settings import load_settings
    from store.migrate import migrate as run

    console.print(f"schema at revision {run(load_settings().database_url)}")


@app.command()
def worker() -> None:
    """Run workflows, their effects and the resident loops until SIGTERM."""
    from settings import load_settings
    from worker import run_worker

    async def run() -> None:
        await run_worker(load_settings(), stop_on_signals())

    run_service(run)


@app.command()
def up(detach: Annotated[bool, typer.Option(help="Go on in the background.")] = True) -> None:
    """Start the embedded stack with API, hub and worker."""
    from devstack import commands

    raise typer.Exit(commands.up(detach))


@app.command()
def down() -> None:
    """Stop what `giveway up` started."""
    from devstack import commands

    raise typer.Exit(commands.down())


@app.command()
def doctor(json: Json = False) -> None:
    """Check everything the stack needs and say what to do about what is missing."""
    from devstack.commands import STATE_DIR
    from devstack.doctor import run_checks

    checks = asyncio.run(run_checks(os.environ, STATE_DIR))
    for check in [] if json else checks:
        console.print(f"{'[green]ok  [/]' if check.ok else '[bold red]miss[/]'} {check.name}: {check.detail}")
        if check.fix:
            console.print(f"       → {check.fix}")
    if json:
        print_json([asdict(check) for check in checks])
    raise typer.Exit(0 if all(check.ok for check in checks) else 1)


@app.command()
def demo(
    answers: Annotated[Path | None, typer.Option(help="A folder of recorded answers to replay.")] = None,
    brand: Annotated[str, typer.Option(help="With --answers: the brand whose mentions are counted.")] = "OpenAI",
    competitor: Annotated[list[str] | None, typer.Option(help="With --answers: a competitor; may be repeated.")] = None,
    speed: Annotated[float, typer.Option(min=0, help="How much faster than a real desktop.")] = 2.0,
    picture: Annotated[Path | None, typer.Option(help="Also write what is printed as an SVG picture.")] = None,
) -> None:
    """Run the main job: a scheduled batch that gives way to collect-now. The last line is one JSON object."""
    from devstack.commands import STATE_DIR
    from devstack.demo.material import recorded, samples
    from devstack.demo.story import Options, run_demo

    rivals = competitor or ["Google", "Perplexity", "Anthropic"]
    material = samples() if answers is None else recorded(answers, brand, rivals)
    STATE_DIR.mkdir(parents=True, exist_ok=True)
    shown = Console(highlight=False, width=110, record=True, force_terminal=False) if picture else console
    if picture:
        shown.print("[bold]$ make demo[/]")
    outcome = asyncio.run(run_demo(material, Options(STATE_DIR, dict(os.environ), speed), shown))
    if picture:
        shown.print(orjson.dumps(outcome).decode(), markup=False)
        # Rich's picture loads its font from somebody's server; whoever looks at ours has a monospaced one.
        svg = re.sub(r"@font-face \{.*?\}\s*", "", shown.export_svg(title="giveway"), flags=re.DOTALL)
        picture.write_text(svg, encoding="utf-8")
    print_json(outcome)
    if outcome["lost"] or outcome["duplicated"]:
        raise typer.Exit(1)


@app.command()
def tenant(name: Annotated[str, typer.Argument(help="The tenant's name.")], json: Json = False) -> None:
    """Create a tenant with one workspace; prints their ids."""
    if not 1 <= len(name.strip()) <= 200:
        raise typer.BadParameter("a tenant's name has 1 to 200 characters")
    from store.database import open_pool
    from store.tenants import NewTenant, create_tenant

    settings = running_settings()

    async def run() -> NewTenant:
        pool = await open_pool(settings.database_url, size=1)
        try:
            return await create_tenant(pool, name)
        finally:
            await pool.close()

    made = asyncio.run(run())
    if json:
        print_json(asdict(made))
    else:
        console.print(f"tenant {made.tenant_id}, workspace {made.workspace_id}")


@app.command()
def token(
    tenant: Annotated[int, typer.Option(min=1, help="Tenant id.")],
    workspace: Annotated[list[int], typer.Option(min=1, help="Workspace id; may be repeated.")],
    user: Annotated[int, typer.Option(min=1, help="User id.")] = 1,
    role: Annotated[str, typer.Option(help="viewer, operator, admin or ops.")] = "admin",
) -> None:
    """Sign a token with the development key of the environment, or of the stack that `giveway up` runs."""
    from api.auth import Role, issue_development_token

    if role not in set(Role):
        raise typer.BadParameter(f"there is no role {role!r}; known: {', '.join(Role)}")
    typer.echo(
        issue_development_token(running_settings(), tenant_id=tenant, workspaces=workspace, user_id=user, role=role)
    )


app.add_typer(badcases_app, name="badcases")
app.add_typer(batch_app, name="batch")
app.add_typer(bench, name="bench")
app.add_typer(clients_app, name="clients")
app.add_typer(desktop_app, name="desktop")
app.add_typer(dlq_app, name="dlq")
app.command("explain")(explain)
app.command("parse")(parse)
app.add_typer(plan_app, name="plan")
app.command("reconcile")(reconcile)
app.command("reparse")(reparse)
app.command("rollback-legacy")(rollback_legacy)
app.command("serve")(serve)
app.add_typer(settings_app, name="settings")
app.command("simulate")(simulate)
app.command("tune")(tune)


def main() -> None:
    """Entry point: every command leaves through one exit that flushes and keeps the code."""
    leave(_run())


def _run() -> int:
    try:
        code = app(standalone_mode=False, prog_name="giveway")
    except typer.Abort:
        return 130
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return _explain(error)
    # Outside standalone mode an Exit is not raised: its code is the result.
    return code if isinstance(code, int) else 0


def _explain(error: Exception) -> int:
    """Usage errors show themselves, our own say what to do next; anything else shows where it happened."""
    shown = Console(stderr=True, highlight=False)
    if isinstance(error, TyperException) and hasattr(error, "show"):
        error.show()
        return int(getattr(error, "exit_code", 2))
    code = getattr(error, "code", None)
    if isinstance(code, str):
        shown.print(f"[bold red]{code}[/] {escape(str(error))}")
    elif _is_unreachable(error):
        shown.print(f"[bold red]unreachable[/] {escape(str(error) or type(error).__name__)}")
    else:
        shown.print_exception()
    if _is_unreachable(error):
        shown.print("is the stack up? `make up` starts it, `giveway doctor` says what is missing")
    return 1


def _is_unreachable(error: Exception) -> bool:
    """A server that is not there or does not let us in, or an address that cannot be one."""
    import asyncpg
    import httpx

    from domain.errors import BrokerUnavailable

    away = ConnectionError | TimeoutError | BrokerUnavailable | httpx.TransportError | asyncpg.CannotConnectNowError
    # Often a database of somebody else's at the address.
    stranger = asyncpg.InvalidAuthorizationSpecificationError | asyncpg.InvalidCatalogNameError
    return isinstance(error, away | stranger)


if __name__ == "__main__":
    main()
