"""The conformance suite against the whole server on real processes, and before it a proxy that breaks one rule."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from desktop.conformance.hub_suite import HUB_CHECKS, LEASES, check_hub, open_target
from desktop.conformance.pace import HUB_PACE
from desktop.conformance.target import Access
from desktop.conformance.verdict import Outcome, Verdict
from devstack.demo.material import samples
from devstack.demo.seed import new_tenant
from store.database import Pool
from tests.e2e.broken_hubs import BROKEN_HUBS, BrokenHub, BrokenRest, Proxy
from tests.e2e.installation import Installation

pytestmark = pytest.mark.timeout(300)

REPOSITORY = Path(__file__).resolve().parents[2]
# The protocol's bounds are the product's promise; here a machine that does much else at once must not break them.
PATIENT = replace(HUB_PACE, patience=30.0, slack=20.0, revocation=15.0)
# An answer that never comes is waited for so long.
IMPATIENT = replace(HUB_PACE, patience=4.0)
AT_ONCE = 6
NEEDS_WORK = frozenset(check.name for check in LEASES)


async def access_of(installation: Installation, pool: Pool) -> Access:
    """A tenant of its own."""
    settings = installation.server.settings
    _, workspace_id, token = await new_tenant(pool, settings, samples())
    return Access(settings.hub_url, installation.server.api_url, token, workspace_id)


async def verdict_on(access: Access, broken: BrokenHub) -> Verdict:
    """What the check that should notice it says."""
    async with Proxy(access.ws_url, broken.fault).serving() as url:
        rest = BrokenRest(broken.fault)
        async with open_target(replace(access, ws_url=url), IMPATIENT, rest) as target:
            [verdict] = [one async for one in check_hub(target, [broken.check])]
    return verdict


async def uncaught(accesses: Sequence[Access], broken: Sequence[BrokenHub], at_once: int) -> list[str]:
    """The faults that no check calls a failure."""
    room = asyncio.Semaphore(at_once)

    async def one(number: int, hub: BrokenHub) -> str | None:
        async with room:
            verdict = await verdict_on(accesses[number % len(accesses)], hub)
        failed = verdict.outcome is Outcome.FAILED and verdict.expected and verdict.seen
        return None if failed else f"{hub.check}: {hub.how}: {verdict}"

    found = await asyncio.gather(*(one(number, hub) for number, hub in enumerate(broken)))
    return [text for text in found if text is not None]


async def test_the_real_hub_passes_every_check_and_every_broken_one_is_caught(
    installation: Installation, pool: Pool
) -> None:
    access = await access_of(installation, pool)
    async with open_target(access, PATIENT) as target:
        verdicts = [verdict async for verdict in check_hub(target)]
    assert [verdict for verdict in verdicts if verdict.outcome is not Outcome.PASSED] == []
    assert len(verdicts) == len(HUB_CHECKS)
    assert (await command_on(access, "client.replaced", "rest.events"))["passed"] == 2
    apart = [hub for hub in BROKEN_HUBS if hub.check not in NEEDS_WORK]
    assert await uncaught([access], apart, AT_ONCE) == []
    # A tenant has two requests at most, and an hour's worth of them is soon used up.
    working = [hub for hub in BROKEN_HUBS if hub.check in NEEDS_WORK]
    tenants = [await access_of(installation, pool) for _ in working]
    assert await uncaught(tenants, working, AT_ONCE) == []


async def command_on(access: Access, *only: str) -> dict[str, Any]:
    """The report of the command itself."""
    names = [part for name in only for part in ("--only", name)]
    where = ["--url", access.ws_url, "--api", access.api_url, "--workspace", str(access.workspace_id), "--json"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli", "desktop", "conformance", *where, *names,
        cwd=REPOSITORY, env={**os.environ, "GIVEWAY_TOKEN": access.user_token or ""}, stdout=subprocess.PIPE,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0, output
    report: dict[str, Any] = json.loads(output.splitlines()[-1])
    return report


def test_every_check_has_a_hub_that_fails_it() -> None:
    assert {hub.check for hub in BROKEN_HUBS} == {check.name for check in HUB_CHECKS}
