"""The practice site with a session for each test, and a desktop's browser driver that runs phases as asked."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from desktop.browser.driver import BrowserDriver
from desktop.browser.site import Site
from desktop.browser.sites import load_site, practice_file
from desktop.driver import Answer, DriverFailure, RunContext
from desktop.practice_site.site import PracticeSite, Session
from domain.phases import Phase
from domain.protocol import TaskAvailable
from tests.desktop.frames import available

PATIENCE = 30.0
QUESTION = "Which note app is best?"
DRIVEN = tuple(phase for phase in Phase if phase is not Phase.POSTING)


def adapter(url: str, **changes: Any) -> Site:
    """The shipped adapter at another address; `changes` replace keys, a mapping those inside of it."""
    known = load_site(practice_file()).model_dump(exclude_none=True)
    for key, value in changes.items():
        known[key] = {**known[key], **value} if isinstance(value, dict) and isinstance(known.get(key), dict) else value
    return Site.model_validate({**known, "start_url": url})


def task(question: str = QUESTION) -> TaskAvailable:
    return available(platform="practice", question=question)


async def until(condition: Callable[[], bool], what: str) -> None:
    """Until it holds: the site's and the browser's states have no event to wait for."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"{what} did not come true in {PATIENCE:.0f} s") from None


@dataclass(frozen=True, slots=True)
class Desk:
    """One desktop's driver, with the session of the site that it visits."""

    driver: BrowserDriver
    site: PracticeSite
    name: str
    home: Path

    @property
    def session(self) -> Session:
        return self.site.session(self.name)

    def behave(self, **changes: Any) -> None:
        self.site.change(self.name, changes)

    async def run(self, phases: tuple[Phase, ...], frame: TaskAvailable, context: RunContext) -> None:
        """Run the phases whole."""
        for phase in phases:
            while await self.driver.run_phase(phase, frame, context):
                pass

    async def ask(self, question: str = QUESTION) -> Answer:
        """All phases, as an execution runs them."""
        frame, context = task(question), RunContext()
        try:
            await self.run(DRIVEN, frame, context)
        finally:
            await self.driver.release(frame, context)
        assert context.answer is not None
        return context.answer

    async def fails(self, question: str = QUESTION) -> DriverFailure:
        """Ask, and be refused."""
        try:
            answer = await self.ask(question)
        except DriverFailure as failure:
            return failure
        raise AssertionError(f"it answered {answer.raw[:200]!r}")

    async def health(self, wanted: str | None) -> None:
        await until(lambda: self.driver.sessions().get("practice") == wanted, f"health {wanted}")


def new_name() -> str:
    return f"s-{uuid4().hex[:8]}"
