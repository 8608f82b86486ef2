"""Reversed: every scenario for a client, and the run of all of them."""

from collections.abc import AsyncIterator, Iterable
from typing import Final

from desktop.conformance.client_greeting import GREETING, MANNERS
from desktop.conformance.client_orders import ORDERS
from desktop.conformance.client_reconnect import FINAL, RECONNECT
from desktop.conformance.client_tasks import TASKS
from desktop.conformance.play import Play
from desktop.conformance.verdict import Check, Outcome, Verdict, chosen, judge

# The close codes last: after each of them the client has to be started again.
CLIENT_CHECKS: Final[tuple[Check[Play], ...]] = (
    *GREETING[:2], *TASKS, *ORDERS, *GREETING[2:], *RECONNECT, *MANNERS, *FINAL,
)  # fmt: skip


async def check_client(play: Play, only: Iterable[str] = ()) -> AsyncIterator[Verdict]:
    """Drive the client through the scenarios, one after the other. InvalidInput for an unknown name."""
    checks = chosen(CLIENT_CHECKS, only)
    try:
        for check in checks:
            verdict = await judge(check, play)
            if verdict.outcome is Outcome.FAILED:
                await play.clear()
            yield verdict
    finally:
        await play.finish()
