"""Bringing results to the server: one try while the execution is in POSTING, the rest in the background.

A result leaves the disk when the server has taken it (202) or refused it for good (409 lease_lost, 404). A body that
is refused as such (413, 4xx) is replaced by a failure, so that the task does not run out in silence.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

from desktop.backoff import Backoff
from desktop.events import EventKind, Reporter
from desktop.rest import Reason, Refused, RestClient
from desktop.results import TOO_LARGE, KeptResult, ResultStore
from domain.desktop_calls import ResultAnswer
from domain.protocol import HeldAttempt

log = logging.getLogger(__name__)

# Seconds after which a disk that refused a result is tried again.
DISK_AGAIN: Final = 5.0
REJECTED: Final = "result_rejected"
# Hello and heartbeat must stay under the frame bound (64 KB); the server lets far fewer results wait than this.
MOST_LISTED: Final = 200


class Posted(StrEnum):
    """What became of one result."""

    ACCEPTED = "accepted"
    KEPT = "kept"
    DISCARDED = "discarded"


@dataclass(slots=True)
class _Waiting:
    result: KeptResult
    tries: int = 0
    next_at: float = 0.0
    # An execution or the resender is sending it now.
    busy: bool = False
    # It lies on disk as it is.
    kept: bool = False


class Poster:
    """Owner of the results that the server has not taken yet."""

    def __init__(
        self,
        store: ResultStore,
        rest: RestClient,
        reporter: Reporter,
        backoff: Backoff,
        rng: Random,
        disk_again: float = DISK_AGAIN,
    ) -> None:
        self._store = store
        self._rest = rest
        self._reporter = reporter
        self._backoff = backoff
        self._rng = rng
        self._waiting: dict[str, _Waiting] = {}
        self._wake = asyncio.Event()
        self._disk_fails = False
        self._disk_again = disk_again

    def keeps_results(self) -> bool:
        """Whether the disk takes results: there is room, and the last write went well."""
        return not self._disk_fails and self._store.has_room()

    async def load(self) -> None:
        """Take over what an earlier run has left on disk."""
        for result in await self._store.load():
            self._waiting[result.attempt_id] = _Waiting(result, kept=True)
        self._wake.set()

    async def submit(self, result: KeptResult) -> Posted:
        """Keep the result on disk and try once to post it; later tries are the resender's."""
        waiting = _Waiting(result, busy=True)
        self._waiting[result.attempt_id] = waiting
        try:
            await self._save(waiting)
            return await self._post(waiting)
        finally:
            waiting.busy = False
            self._wake.set()

    async def run(self) -> None:
        """Post what waits, each with its own back-off, until cancelled."""
        while True:
            due = [one for one in self._waiting.values() if not one.busy and one.next_at <= time.monotonic()]
            await asyncio.gather(*(self._again(one) for one in due))
            if self._disk_fails:
                await self._try_disk()
            await self._pause()

    def holds(self, task_id: str) -> bool:
        """Whether a result of this task waits here."""
        return any(one.result.task_id == task_id for one in self._waiting.values())

    def held(self) -> list[HeldAttempt]:
        """The attempts whose results wait, as hello and heartbeats list them."""
        return [one.result.held() for one in self._waiting.values()][:MOST_LISTED]

    async def _again(self, waiting: _Waiting) -> None:
        waiting.busy = True
        try:
            await self._post(waiting)
        finally:
            waiting.busy = False

    async def _pause(self) -> None:
        self._wake.clear()
        waits = [one.next_at - time.monotonic() for one in self._waiting.values() if not one.busy]
        if waits and min(waits) <= 0:
            return
        if self._disk_fails:
            waits.append(self._disk_again)
        try:
            async with asyncio.timeout(min(waits, default=None)):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _post(self, waiting: _Waiting) -> Posted:
        result = waiting.result
        answer = await self._rest.result(result.task_id, result.call)
        if isinstance(answer, ResultAnswer):
            return await self._done(result, Posted.ACCEPTED)
        if answer.reason in (Reason.LEASE_LOST, Reason.NOT_FOUND):
            return await self._done(result, Posted.DISCARDED, answer)
        if answer.reason in (Reason.TOO_LARGE, Reason.REJECTED):
            return await self._replace(waiting, answer)
        return self._keep(waiting, answer)

    async def _replace(self, waiting: _Waiting, refused: Refused) -> Posted:
        if waiting.result.call.outcome == "failed":
            return await self._done(waiting.result, Posted.DISCARDED, refused)
        code = TOO_LARGE if refused.reason is Reason.TOO_LARGE else REJECTED
        log.error("result of %s refused (%s): sent as failed", waiting.result.task_id, refused.detail)
        waiting.result, waiting.kept = waiting.result.failed_with(code), False
        await self._save(waiting)
        return await self._post(waiting)

    def _keep(self, waiting: _Waiting, refused: Refused) -> Posted:
        delay = max(self._backoff.delay(waiting.tries, self._rng), refused.retry_after or 0.0)
        waiting.tries += 1
        waiting.next_at = time.monotonic() + delay
        self._report(EventKind.RESULT_KEPT, waiting.result, refused.reason)
        return Posted.KEPT

    async def _done(self, result: KeptResult, posted: Posted, refused: Refused | None = None) -> Posted:
        if refused is not None:
            log.warning("result of %s discarded: %s (%s)", result.task_id, refused.reason, refused.detail)
        await self._discard(result)
        self._waiting.pop(result.attempt_id, None)
        kind = EventKind.RESULT_ACCEPTED if posted is Posted.ACCEPTED else EventKind.RESULT_DISCARDED
        self._report(kind, result, refused.reason if refused else None)
        return posted

    async def _discard(self, result: KeptResult) -> None:
        try:
            await self._store.discard(result.attempt_id)
        except OSError as error:
            # It is sent again at the next start, and counts once.
            self._disk_fails = True
            log.error("result of %s cannot be removed from disk: %s", result.task_id, error)

    async def _save(self, waiting: _Waiting) -> None:
        try:
            await self._store.save(waiting.result)
            waiting.kept, self._disk_fails = True, False
        except OSError as error:
            # It stays in memory and is posted all the same; only a crash before that would lose it.
            self._disk_fails = True
            log.error("result of %s cannot be kept on disk: %s", waiting.result.task_id, error)

    async def _try_disk(self) -> None:
        """Whether the disk is well again; results that it had refused are kept then."""
        try:
            await self._store.try_out()
        except OSError:
            return
        self._disk_fails = False
        for one in [one for one in self._waiting.values() if not (one.kept or one.busy)]:
            await self._save(one)

    def _report(self, kind: EventKind, result: KeptResult, detail: str | None) -> None:
        self._reporter.emit(
            kind, task_id=result.task_id, attempt_id=result.attempt_id, outcome=result.call.outcome, detail=detail
        )
