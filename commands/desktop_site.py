"""`giveway desktop site …` and `giveway desktop practice-site`: writing a site adapter and trying it."""

import asyncio
import json as jsonlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from commands.common import Json, console, print_json, run_service, stop_on_signals
from domain.errors import InvalidInput

if TYPE_CHECKING:
    from desktop.browser.options import BrowserOptions
    from desktop.browser.site import Site
    from desktop.browser.trial import PhaseDone
    from desktop.driver import Answer, DriverFailure
    from desktop.practice_site.behaviour import Behaviour

app = typer.Typer(help="Write and check site adapters of the browser driver.", no_args_is_help=True)

PRACTICE_PORT: Final = 8765
TRIAL: Final = "trial"
NO_PLAYWRIGHT: Final = "the browser needs Playwright: pip install 'giveway[browser]'"

File = Annotated[Path, typer.Argument(help="A site adapter.")]
State = Annotated[Path, typer.Option(help="Where desktops keep their logins.")]
ChromiumPath = Annotated[Path | None, typer.Option(help="The Chromium to run; without it the system's.")]


class NoPlaywright(InvalidInput):
    """Playwright is not installed."""

    code = "driver_unavailable"


@app.command()
def check(
    file: File,
    question: Annotated[str | None, typer.Option("--try", help="Ask the site this question.")] = None,
    headed: Annotated[bool, typer.Option("--headed", help="Show the window while it tries.")] = False,
    client: Annotated[str | None, typer.Option(help="Try with the login of this desktop, by id or name.")] = None,
    state: State = Path(".giveway/desktops"),
    human_wait: Annotated[float, typer.Option(min=1, help="Seconds that a login or a human check waits.")] = 300.0,
    chromium: ChromiumPath = None,
    json: Json = False,
) -> None:
    """Check a site adapter; with --try, ask one question and show what giveway reads of the answer."""
    from desktop.browser.options import BrowserOptions
    from desktop.browser.sites import load_site

    site = load_site(file)
    if question is None:
        _say_valid(file, site, json)
        return
    with tempfile.TemporaryDirectory(prefix="giveway-trial-") as scratch:
        options = BrowserOptions(
            sites=dict.fromkeys(site.platforms, site),
            state_dir=state if client is not None else Path(scratch),
            headed=headed,
            chromium=chromium,
            human_wait=human_wait,
        )
        client_id = registered_id(state, client) if client is not None else TRIAL
        _show(site, _tried(site, question, options, client_id, json), json)


@app.command()
def template() -> None:
    """A commented adapter to start from, on standard output."""
    from desktop.browser.sites import template_file

    typer.echo(template_file().read_text(encoding="utf-8"), nl=False)


@app.command()
def practice() -> None:
    """The practice site's adapter, on standard output."""
    from desktop.browser.sites import practice_file

    typer.echo(practice_file().read_text(encoding="utf-8"), nl=False)


@app.command()
def schema() -> None:
    """The JSON Schema of site adapters, for editors."""
    from desktop.browser.site import Site

    typer.echo(jsonlib.dumps(Site.model_json_schema(), indent=2))


def practice_site(
    port: Annotated[int, typer.Option(min=0, max=65535, help="On the loopback address; 0: any.")] = PRACTICE_PORT,
    behaviour: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="How it behaves from the start; may be repeated.")
    ] = None,
) -> None:
    """Serve the practice site, a small chat site for trying the browser driver, until SIGTERM."""
    from desktop.practice_site.serve import served
    from desktop.practice_site.site import PracticeSite

    site = PracticeSite(_behaviour(behaviour or []))

    async def serve() -> None:
        stop = stop_on_signals()
        async with served(site, port) as url:
            typer.echo(f"practice site: {url}/   what it does: PUT {url}/default/control")
            await stop.wait()

    run_service(serve)


def registered_id(state: Path, client: str) -> str:
    """The id of a desktop of this machine, by its id or its name. typer.BadParameter, which names the known ones."""
    import msgspec

    from desktop.registration import REGISTERED, Registered

    file = state / REGISTERED
    known = msgspec.json.decode(file.read_bytes(), type=list[Registered]) if file.exists() else []
    found = next((one.client_id for one in known if client in (one.client_id, one.name)), None)
    if found is None:
        told = ", ".join(f"{one.name} ({one.client_id})" for one in known) or "none"
        raise typer.BadParameter(f"no desktop {client!r} in {state}; known: {told}. `giveway desktop` registers them")
    return found


def check_playwright() -> None:
    """NoPlaywright, which says how to install it."""
    try:
        import playwright  # noqa: F401
    except ModuleNotFoundError:
        raise NoPlaywright(NO_PLAYWRIGHT) from None


def _behaviour(given: list[str]) -> "Behaviour":
    import msgspec

    from desktop.practice_site.behaviour import Behaviour

    if wrong := next((one for one in given if "=" not in one), None):
        raise typer.BadParameter(f"{wrong!r} is not KEY=VALUE, as login=true")
    try:
        return msgspec.convert(dict(one.split("=", 1) for one in given), Behaviour, strict=False)
    except msgspec.ValidationError as error:
        raise typer.BadParameter(f"{error}; known keys: {', '.join(Behaviour.__struct_fields__)}") from None


def _say_valid(file: Path, site: "Site", json: bool) -> None:
    if json:
        print_json({"file": str(file), "valid": True, "name": site.name, "platforms": site.platforms})
        return
    console.print(f"{file}: valid; site {site.name}, platforms {', '.join(site.platforms)}")
    console.print('next: --try "a question", which asks the site')


def _tried(site: "Site", question: str, options: "BrowserOptions", client_id: str, json: bool) -> "Answer":
    check_playwright()
    from desktop.browser.trial import try_site
    from desktop.driver import DriverFailure

    def on_phase(done: "PhaseDone") -> None:
        if not json:
            console.print(f"  {done.phase:<15}{done.milliseconds:8.0f} ms")

    try:
        return asyncio.run(try_site(site, question, options, client_id, on_phase))
    except DriverFailure as failure:
        shown = options.state_dir / client_id / "failures"
        _say_failed(failure, _kept(shown) if client_id == TRIAL else shown, json)
        raise typer.Exit(1) from None


def _kept(shown: Path) -> Path:
    """What a trial without a desktop leaves; its own folder goes with it."""
    kept = Path(tempfile.mkdtemp(prefix="giveway-failure-"))
    if shown.is_dir():
        shutil.copytree(shown, kept, dirs_exist_ok=True)
    return kept


def _say_failed(failure: "DriverFailure", shown: Path, json: bool) -> None:
    if json:
        told = {"outcome": "failed", "code": failure.code, "detail": failure.detail, "evidence": str(shown)}
        print_json(told)
    else:
        console.print(f"[bold red]{failure.code}[/] {failure.detail}\nscreenshot and page: {shown}")


def _show(site: "Site", answer: "Answer", json: bool) -> None:
    from domain.answers import read_answer

    read = read_answer(answer.raw.encode())
    found: dict[str, Any] = {
        "outcome": "succeeded",
        "content_type": answer.content_type,
        "model": answer.model,
        "chars": len(answer.raw),
        "wire": read.wire,
        "kind": read.kind,
        "text": read.text,
        "citations": [source.url for source in read.citations],
        "error": read.error,
    }
    if json:
        print_json({**found, "raw": answer.raw})
        return
    for name, value in found.items():
        console.print(f"[bold]{name}[/]: ", end="")
        console.print(value, markup=False)
