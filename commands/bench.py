"""`giveway bench …`: measured figures, each with the limit of the same run beside it. One JSON object with `--json`."""

import asyncio
from typing import Annotated

import typer

from commands.common import Json, console, print_json

bench = typer.Typer(no_args_is_help=True, help="Measure, with the limit of the same run beside each figure.")


@bench.command("collect-now")
def collect_now(
    json: Json = False,
    requests: Annotated[int, typer.Option(min=1, help="Clicks in each condition.")] = 50,
    backlog: Annotated[int, typer.Option(min=0, help="Normal tasks waiting in the loaded condition.")] = 10_000,
) -> None:
    """Click to frame and click to start, idle and with a backlog, everything on this machine."""
    from bench.collect_now import run_bench

    figures = asyncio.run(run_bench(requests, backlog, console))
    if json:
        print_json(figures)


@bench.command("dispatch")
def dispatch(
    json: Json = False,
    backlog: Annotated[
        list[int] | None, typer.Option(min=1, help="Tasks waiting; may be repeated. Default: 10000 and 1000000.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds measured at each backlog.")] = 15,
    tenants: Annotated[int, typer.Option(min=2, help="Tenants that share the backlog.")] = 100,
    peer_jobs: Annotated[int, typer.Option(min=1, help="No-op jobs that each peer drains.")] = 20_000,
) -> None:
    """Full rounds of the coordinator in tasks a second, beside a bare claim, Procrastinate and PgQueuer."""
    import uvloop

    from bench.dispatch import Options, run_bench

    chosen = Options(rounds=rounds, tenants=tenants, peer_jobs=peer_jobs)
    if backlog:
        chosen = Options(tuple(sorted(backlog)), rounds, tenants, peer_jobs=peer_jobs)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(run_bench(chosen, console))
    if json:
        print_json(figures)


@bench.command("ingest")
def ingest(
    json: Json = False,
    results: Annotated[int, typer.Option(min=100, help="Results in each round of each setup.")] = 800,
    rounds: Annotated[int, typer.Option(min=1, help="Alternating rounds.")] = 3,
    citations: Annotated[int, typer.Option(min=0, help="Citations of each answer.")] = 20,
) -> None:
    """Results through RabbitMQ into all facts, beside COPY and row-by-row inserts of the same rows."""
    import uvloop

    from bench.ingest import Options, run_bench

    options = Options(results=results, rounds=rounds, citations=citations)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(run_bench(options, console))
    if json:
        print_json(figures)


@bench.command("hub")
def hub(
    json: Json = False,
    sockets: Annotated[int, typer.Option(min=20, help="Desktops connected at once.")] = 2_000,
    pushes_per_second: Annotated[float, typer.Option(min=1, help="Orders and tasks in turns, in all.")] = 500.0,
    seconds: Annotated[float, typer.Option(min=1, help="How long is pushed.")] = 20.0,
    idle_seconds: Annotated[float, typer.Option(min=1, help="How long they only beat, before that.")] = 20.0,
) -> None:
    """Memory a socket and push latency, beside a bare server of the same WebSocket library doing the same."""
    import uvloop

    from bench.hub import Options, run_bench

    options = Options(sockets, pushes_per_second, seconds, idle_seconds)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(run_bench(options, console))
    if json:
        print_json(figures)


@bench.command("preempt")
def preempt(
    json: Json = False,
    clicks: Annotated[int, typer.Option(min=2, help="Clicks on each system.")] = 10,
    task_seconds: Annotated[float, typer.Option(min=0.5, help="How long a scheduled task takes.")] = 30.0,
    step_seconds: Annotated[float, typer.Option(min=0.05, help="Between its safe points.")] = 1.0,
) -> None:
    """Click to start on busy desktops, beside Temporal with Priority and Procrastinate with priorities."""
    from bench.peers.clicks import Options
    from bench.preempt import run_bench

    figures = asyncio.run(run_bench(Options(clicks, task_seconds, step_seconds), console))
    if json:
        print_json(figures)
