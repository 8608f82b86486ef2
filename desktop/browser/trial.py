"""Tries a site adapter with one question, without a server."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from desktop.browser.driver import BrowserDriver, browser_driver
from desktop.browser.options import BrowserOptions
from desktop.browser.site import Site
from desktop.driver import Answer, RunContext
from domain.ids import new_uuid
from domain.lanes import Kind
from domain.phases import Phase
from domain.protocol import TaskAvailable

PHASES: Final = tuple(phase for phase in Phase if phase is not Phase.POSTING)


@dataclass(frozen=True, slots=True)
class PhaseDone:
    """A phase that has ended, and how long it took in milliseconds."""

    phase: Phase
    milliseconds: float


async def try_site(
    site: Site, question: str, options: BrowserOptions, client_id: str, on_phase: Callable[[PhaseDone], None]
) -> Answer:
    """Ask one question as the driver would; reports each phase. DriverFailure, ChromiumMissing, NoDisplay."""
    task = _task(site, question, client_id)
    async with browser_driver(options) as driver_for:
        driver, context = driver_for(client_id), RunContext()
        try:
            for phase in PHASES:
                on_phase(await _run(driver, phase, task, context))
        finally:
            await driver.release(task, context)
        assert context.answer is not None
        return context.answer


async def _run(driver: BrowserDriver, phase: Phase, task: TaskAvailable, context: RunContext) -> PhaseDone:
    began = time.monotonic()
    while await driver.run_phase(phase, task, context):
        pass
    return PhaseDone(phase, (time.monotonic() - began) * 1000)


def _task(site: Site, question: str, client_id: str) -> TaskAvailable:
    """A task as the hub would push it; it never leaves this process."""
    now, task_id = datetime.now(UTC), str(new_uuid())
    return TaskAvailable(
        id=task_id,
        kind=Kind.MONITOR,
        task_id=task_id,
        target_client_id=client_id,
        priority=0,
        lane="normal",
        lane_weight=0,
        status="queued",
        scheduler_group_key=None,
        business_date=None,
        interrupt_generation=0,
        updated_at=now,
        enqueued_at=now,
        source="trial",
        owner="desktop_tasks",
        attempt=1,
        attempt_id=task_id,
        lease_token="",
        lease_expires_at=now + timedelta(seconds=120),
        platform=site.platforms[0],
        question=question,
    )
