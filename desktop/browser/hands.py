"""What is done on a page, in the adapter's terms: banners, steps, typing, sending.

Nothing here has a timeout of its own but banners: the phase has one.
"""

from collections.abc import AsyncIterator
from typing import Final

from playwright.async_api import Error

from desktop.browser.look import Eye
from desktop.browser.site import Step
from desktop.driver import DriverFailure

CHUNK: Final = 16
CLICK_MS: Final = 3_000


class Hands:
    """Acts on the page that the eye sees."""

    def __init__(self, eye: Eye) -> None:
        self._eye = eye
        self._page = eye.page
        self._site = eye.site

    async def dismiss(self) -> None:
        """Close banners that are there; one that does not go is no reason to stop."""
        for selector in self._site.dismiss:
            if await self._eye.visible(selector):
                try:
                    await self._page.locator(selector).last.click(timeout=CLICK_MS)
                except Error:
                    self._eye.alive()

    async def do(self, step: Step) -> None:
        """One step of the adapter."""
        if step.optional and not await self._step_possible(step):
            return
        page = self._page
        if step.click is not None:
            await page.locator(step.click).first.click(timeout=0)
        elif step.press is not None:
            await page.keyboard.press(step.press)
        elif step.goto is not None:
            await page.goto(self._site.address(step.goto), wait_until="domcontentloaded", timeout=0)
        elif step.wait_for is not None:
            await page.locator(step.wait_for).last.wait_for(state="visible", timeout=0)
        elif step.wait_gone is not None:
            await page.locator(step.wait_gone).last.wait_for(state="hidden", timeout=0)

    async def _step_possible(self, step: Step) -> bool:
        selector = step.click or step.wait_for
        return selector is None or await self._eye.visible(selector)

    async def write(self, question: str) -> AsyncIterator[None]:
        """Put the question into the field, in place of a draft; yields between pieces of typing."""
        # A carriage return is the Enter key, which would send what is there so far.
        question = "\n".join(question.splitlines())
        field = self._page.locator(self._site.input.selector).first
        typed = self._site.input.how == "type"
        await field.fill("" if typed else question, timeout=0)
        if not typed:
            return
        await field.click(timeout=0)
        for start in range(0, len(question), CHUNK):
            await self._type(question[start : start + CHUNK])
            yield

    async def _type(self, text: str) -> None:
        """A line's end is Shift+Enter: Enter alone sends the question on most sites."""
        keyboard = self._page.keyboard
        for number, line in enumerate(text.split("\n")):
            if number:
                await keyboard.press("Shift+Enter")
            await keyboard.type(line, delay=self._site.input.delay_ms)

    async def check_written(self, question: str) -> None:
        """DriverFailure `input_rejected` where the field holds another text; white space aside."""
        field = self._page.locator(self._site.input.selector).first
        written = await field.evaluate("e => 'value' in e ? e.value : e.innerText", timeout=0)
        if str(written).split() != question.split():
            raise DriverFailure("input_rejected", "the field does not hold the question")

    async def submit(self) -> None:
        """Send the question: once, whatever comes of it."""
        submit = self._site.submit
        if submit.key is not None:
            await self._page.locator(self._site.input.selector).first.press(submit.key, timeout=0)
        elif submit.click is not None:
            await self._page.locator(submit.click).first.click(timeout=0)
