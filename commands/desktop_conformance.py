"""`giveway desktop conformance`: check any hub, or with --serve drive any client through the protocol."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from commands.common import Json, console, print_json

if TYPE_CHECKING:
    from desktop.conformance.pace import ClientPace
    from desktop.conformance.stage import Address, Stage
    from desktop.conformance.verdict import Verdict

COLOURS = {"passed": "green", "failed": "red", "skipped": "yellow"}


@dataclass(frozen=True, slots=True)
class _Show:
    """How verdicts are told while they come."""

    machine: bool

    def say(self, text: str) -> None:
        """A line for people; apart from the objects of a machine's run."""
        if self.machine:
            typer.echo(text, err=True)
        else:
            console.print(f"· {escape(text)}", highlight=False)

    def verdict(self, verdict: "Verdict") -> None:
        """One verdict at once: a run takes minutes."""
        if self.machine:
            return
        outcome = verdict.outcome.value
        console.print(f"[{COLOURS[outcome]}]{outcome:8}[/] {verdict.name}: {escape(verdict.rule)}", highlight=False)


Only = Annotated[
    list[str] | None,
    typer.Option("--only", help="Names or groups (the part before the dot) to run; may be given several times."),
]


def conformance(
    url: Annotated[str | None, typer.Option(help="The hub's whole WebSocket address, ws://host:port/path.")] = None,
    api: Annotated[str | None, typer.Option(help="Base address of its REST calls, http://host:port.")] = None,
    token: Annotated[
        str | None, typer.Option(envvar="GIVEWAY_TOKEN", help="A user's token: registers throw-away clients.")
    ] = None,
    workspace: Annotated[int | None, typer.Option(help="The workspace to register them in.")] = None,
    device_token: Annotated[
        str | None,
        typer.Option(envvar="GIVEWAY_DEVICE_TOKEN", help="The token of a client to use, or (--serve) to hand out."),
    ] = None,
    only: Only = None,
    serve: Annotated[bool, typer.Option("--serve", help="Reversed: be a scripted hub and drive a client.")] = False,
    host: Annotated[str, typer.Option(help="--serve: where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="--serve: WebSocket port; 0 takes a free one.")] = 0,
    rest_port: Annotated[int, typer.Option(min=0, max=65535, help="--serve: REST port; 0 takes a free one.")] = 0,
    command: Annotated[str | None, typer.Option(help="--serve: starts the client, also again; see the how-to.")] = None,
    platform: Annotated[str, typer.Option(help="--serve: the platform of the tasks.")] = "openai",
    question: Annotated[str | None, typer.Option(help="--serve: the question of the tasks.")] = None,
    timeout: Annotated[float | None, typer.Option(min=1, help="Seconds for each step of the other side.")] = None,
    arrival: Annotated[float, typer.Option(min=1, help="--serve: seconds in which the client must connect.")] = 300.0,
    quick: Annotated[bool, typer.Option("--quick", help="--serve: leave out what waits for heartbeats.")] = False,
    json: Json = False,
) -> None:
    """Check a hub (--url, --api) or, with --serve, a client against the protocol. Exit 1 when a rule is broken."""
    show = _Show(json)
    if serve:
        verdicts = _client_verdicts(
            show,
            (host, port, rest_port),
            _stage(platform, question, device_token, _pace(timeout, arrival, quick)),
            command,
            only,
        )
    elif url is None or api is None:
        raise typer.BadParameter("give --url and --api of the hub to check, or --serve to check a client")
    else:
        verdicts = _hub_verdicts(url, api, token, workspace, device_token, timeout, only)
    asyncio.run(_tell(show, verdicts))


async def _tell(show: _Show, verdicts: "AsyncIterator[Verdict]") -> None:
    from desktop.conformance.verdict import Report

    found = []
    async for verdict in verdicts:
        show.verdict(verdict)
        found.append(verdict)
    report = Report(tuple(found))
    if show.machine:
        print_json(report.as_json())
    else:
        _print_table(report.verdicts)
    if not report.conforms:
        raise typer.Exit(1)


def _print_table(verdicts: "tuple[Verdict, ...]") -> None:
    """What did not pass, with all that is known; then the count."""
    counts = {name: sum(verdict.outcome == name for verdict in verdicts) for name in COLOURS}
    table = Table("check", "section", "outcome", "expected / why", "seen")
    for verdict in verdicts:
        if verdict.outcome != "passed":
            colour = COLOURS[verdict.outcome]
            said = verdict.expected or verdict.why or ""
            outcome = f"[{colour}]{verdict.outcome}[/]"
            table.add_row(verdict.name, verdict.section, outcome, escape(said), escape(verdict.seen or ""))
    if table.row_count:
        console.print(table)
    console.print(", ".join(f"{count} {name}" for name, count in counts.items()), highlight=False)


async def _hub_verdicts(
    url: str,
    api: str,
    token: str | None,
    workspace: int | None,
    device_token: str | None,
    timeout: float | None,
    only: list[str] | None,
) -> "AsyncIterator[Verdict]":
    from desktop.conformance.hub_suite import check_hub, open_target
    from desktop.conformance.pace import HUB_PACE
    from desktop.conformance.target import Access

    pace = HUB_PACE if timeout is None else replace(HUB_PACE, patience=timeout, work=max(timeout, HUB_PACE.work))
    access = Access(url, api.rstrip("/"), token, workspace, device_token)
    async with open_target(access, pace) as target:
        async for verdict in check_hub(target, only or ()):
            yield verdict


def _pace(timeout: float | None, arrival: float, quick: bool) -> "ClientPace":
    from desktop.conformance.pace import CLIENT_PACE

    pace = CLIENT_PACE if timeout is None else replace(CLIENT_PACE, patience=timeout)
    return replace(pace, arrival=arrival, skip_heartbeats=quick)


def _stage(platform: str, question: str | None, device_token: str | None, pace: "ClientPace") -> "Stage":
    import secrets
    from uuid import uuid4

    from desktop.conformance.orders import QUESTION, TaskMaker
    from desktop.conformance.stage import Stage

    make = TaskMaker(str(uuid4()), platform, question or QUESTION)
    return Stage(make, device_token or secrets.token_urlsafe(32), pace)


async def _client_verdicts(
    show: _Show, where: tuple[str, int, int], stage: "Stage", command: str | None, only: list[str] | None
) -> "AsyncIterator[Verdict]":
    from desktop.conformance.bringing import CommandBrings, PersonBrings
    from desktop.conformance.client_suite import check_client
    from desktop.conformance.play import Play
    from desktop.conformance.stage_server import serving

    async with serving(stage, *where) as address:
        _introduce(show, address)
        play = Play(stage, PersonBrings(show.say) if command is None else CommandBrings(command))
        async for verdict in check_client(play, only or ()):
            yield verdict


def _introduce(show: _Show, address: "Address") -> None:
    """How to connect: lines for people, or one JSON object for a program that starts the client."""
    if show.machine:
        print_json(asdict(address))
        return
    show.say(f"WebSocket     {address.ws_url}")
    show.say(f"REST          {address.api_url}")
    show.say(f"client id     {address.client_id}")
    show.say(f"device token  {address.device_token}")
