"""Every check of a hub, and the run of all of them: those that need no work side by side, the others in turn."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx

from desktop.conformance.hub_clients import CLIENT_RULES
from desktop.conformance.hub_frames import FRAMES
from desktop.conformance.hub_handshake import HANDSHAKE
from desktop.conformance.hub_leases import LEASES
from desktop.conformance.hub_work import Workshop
from desktop.conformance.pace import HUB_PACE, HubPace
from desktop.conformance.target import Access, Target
from desktop.conformance.verdict import OUTSIDE, CannotCheck, Check, Verdict, chosen, judge
from desktop.connection import is_loopback
from domain.errors import GivewayError

APART: Final[tuple[Check[Target], ...]] = (*HANDSHAKE, *FRAMES, *CLIENT_RULES)
HUB_CHECKS: Final[tuple[Check[Any], ...]] = (*APART, *LEASES)


class HubUnreachable(GivewayError):
    """Nothing answers at the address: there is nothing to judge."""

    code = "hub_unreachable"


class NoTestClient(GivewayError):
    """The user's token does not register clients, so hardly anything could be judged."""

    code = "no_test_client"


@asynccontextmanager
async def open_target(
    access: Access, pace: HubPace = HUB_PACE, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator[Target]:
    """The hub under test. HubUnreachable, or NoTestClient when a token was given that registers none."""
    own = is_loopback(access.api_url)
    timeout = httpx.Timeout(pace.patience + pace.slack)
    async with httpx.AsyncClient(timeout=timeout, trust_env=not own, transport=transport) as http:
        target = Target(access, pace, http)
        await _reach(target)
        if access.registers:
            await _try_to_register(target)
        yield target


async def _reach(target: Target) -> None:
    try:
        async with target.peer(None):
            pass
    except OUTSIDE as error:
        where = target.access.ws_url
        raise HubUnreachable(f"no WebSocket can be opened at {where} ({error}); look at the address") from error


async def _try_to_register(target: Target) -> None:
    try:
        async with target.own_client():
            pass
    except (CannotCheck, httpx.HTTPError) as refused:
        raise NoTestClient(f"{refused}; look at --api, --token and --workspace") from refused


async def check_hub(target: Target, only: Iterable[str] = ()) -> AsyncIterator[Verdict]:
    """Run the checks; verdicts come in the order of the checks. InvalidInput for an unknown name."""
    names = {check.name for check in chosen(HUB_CHECKS, only)}
    async for verdict in _apart(target, [check for check in APART if check.name in names]):
        yield verdict
    workshop = Workshop(target)
    try:
        for check in LEASES:
            if check.name in names:
                yield await judge(check, workshop)
    finally:
        await workshop.close()


async def _apart(target: Target, checks: list[Check[Target]]) -> AsyncIterator[Verdict]:
    # One connection per client: with one token for all, they take turns.
    room = asyncio.Semaphore(target.pace.at_once if target.access.registers else 1)

    async def one(check: Check[Target]) -> Verdict:
        async with room:
            return await judge(check, target)

    running = [asyncio.create_task(one(check)) for check in checks]
    try:
        for task in running:
            yield await task
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
