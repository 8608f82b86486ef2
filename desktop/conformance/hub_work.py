"""Work for the lease checks, made as a tenant's own UI would make it: a brand, questions, a click, a plan."""

import asyncio
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import httpx

from desktop.conformance.hub_desk import HubDesk
from desktop.conformance.target import Target, told
from desktop.conformance.verdict import CannotCheck
from desktop.reconnect import retry_after
from domain.protocol import TaskAvailable

MONITORING: Final = "/api/tenant/monitoring"
# A platform takes one task of a tenant at a time, so several are asked.
MOST_PLATFORMS: Final = 4
TASKS: Final = 8
# 29 February: the plan runs when it is told to, and hardly ever by itself.
NEVER: Final = "0 0 29 2 *"
# Seconds until a call is repeated whose answer does not say when.
SOON: Final = 1.0


@dataclass(slots=True)
class Workshop:
    """One brand, one client and its tasks, shared by the lease checks; made at the first use, cleared at the end."""

    target: Target
    desk: HubDesk | None = None
    brand_id: int = 0
    platforms: list[str] = field(default_factory=list)
    # Asked by a click, by the plan, and by the click that the plan's work gives way to.
    clicked: list[int] = field(default_factory=list)
    planned: int = 0
    planned_text: str = ""
    urgent: int = 0
    requests: list[str] = field(default_factory=list)
    plan_id: int | None = None
    _missing: str | None = None
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def open(self) -> HubDesk:
        """The desk, connected, with the tasks of a click on their way to it. CannotCheck says why there is none."""
        if self._missing is not None:
            raise CannotCheck(self._missing)
        if self.desk is None:
            try:
                self.desk = await self._set_up()
            except CannotCheck as missing:
                self._missing = str(missing)
                raise
        return self.desk

    async def task(self) -> tuple[HubDesk, TaskAvailable]:
        """The desk and a task that waits there."""
        desk = await self.open()
        return desk, await desk.next_task()

    async def _set_up(self) -> HubDesk:
        if not self.target.access.registers:
            raise CannotCheck("it needs work: give --token and --workspace of a tenant that may collect")
        platforms = (await self._made("GET", "/platforms"))["items"]
        self.platforms = [platform["id"] for platform in platforms[:MOST_PLATFORMS]]
        name = f"conformance suite {uuid4().hex[:8]}"
        brand = {"workspace_id": self.target.access.workspace_id, "name": name}
        self.brand_id = (await self._made("POST", "/brands", brand))["id"]
        await self._make_questions()
        client = await self._stack.enter_async_context(self.target.own_client())
        desk = HubDesk(self.target, client)
        self._stack.push_async_callback(desk.disconnect)
        await desk.connect()
        await self._make_plan()
        await self.click(desk, self.clicked, self.platforms)
        return desk

    async def _make_questions(self) -> None:
        count = -(-TASKS // len(self.platforms)) + 2
        texts = [{"text": f"What does the conformance suite ask? ({number + 1})"} for number in range(count)]
        added = await self._made("POST", f"/brands/{self.brand_id}/questions/bulk", {"questions": texts})
        self.planned, self.urgent, *self.clicked = (item["id"] for item in added["items"])
        self.planned_text = added["items"][0]["text"]

    async def click(self, desk: HubDesk, questions: list[int], platforms: list[str]) -> str:
        """Collect now, on this desk; the request's id."""
        body = {"question_ids": questions, "platforms": platforms, "target_client_id": desk.client.client_id}
        answer = await self._made("POST", f"/brands/{self.brand_id}/collect-now", body)
        self.requests.append(answer["request_id"])
        return str(answer["request_id"])

    async def _make_plan(self) -> None:
        """What is collected from the brand at all; a click needs one too."""
        body = {
            "name": "conformance suite",
            "cadence": NEVER,
            "platforms": self.platforms,
            "question_ids": [self.planned],
        }
        self.plan_id = (await self._made("POST", f"/brands/{self.brand_id}/plans", body))["id"]

    async def run_plan(self) -> None:
        """Scheduled work, now."""
        await self._made("POST", f"/plans/{self.plan_id}/run")

    async def collects(self) -> bool:
        """Whether a click is not over yet."""
        answers = [await self._made("GET", f"/collect-requests/{request}") for request in self.requests]
        return any(answer["finished_at"] is None for answer in answers)

    async def cancel_clicks(self) -> None:
        """Nothing that was asked for is wanted any more; requests that are over already are left alone."""
        requests, self.requests = self.requests, []
        for request in requests:
            await self._call("POST", f"/collect-requests/{request}/cancel")

    async def close(self) -> None:
        """Take back what can be taken back; brand and questions stay."""
        with suppress(httpx.HTTPError):
            await self.cancel_clicks()
            if self.plan_id is not None:
                await self._call("PATCH", f"/plans/{self.plan_id}", {"active": False})
        await self._stack.aclose()

    async def _made(self, method: str, path: str, body: Any = None) -> Any:
        response = await self._call(method, path, body)
        if response.is_error:
            raise CannotCheck(f"no work could be made: {method} {MONITORING}{path} answered {told(response)}")
        return response.json()

    async def _call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """The same call again for a while when the answer is 503: whatever makes the work may be busy."""
        given = {} if body is None else {"json": body}
        until = time.monotonic() + self.target.pace.work
        while True:
            response = await self.target.user_call(method, MONITORING + path, **given)
            pause = retry_after(response.headers.get("retry-after"), datetime.now(UTC)) or SOON
            if response.status_code != httpx.codes.SERVICE_UNAVAILABLE or time.monotonic() + pause > until:
                return response
            await asyncio.sleep(pause)
