"""Raw answers read again with today's readers and rules, and the facts rewritten (3-results §3.3, ADR 0042).

No lease and no claim: a run is written only as long as it is what was read, so that several reparses, live ingest and
people's labels go on side by side, and one that was killed goes on where it is started again.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from activities.interpret import PARSER_ERROR, interpret
from activities.outages import is_poison, through_outages
from activities.reparse_tally import Change, Tally
from domain.errors import NotFound
from domain.transport import ResultMessage
from store.database import Pool
from store.facts import AttemptContext, BrandNames, RunFact, read_brands
from store.projections import DayKey
from store.raw_answers import RawAnswerRefused, RawAnswers
from store.reparse import Selection, StoredRun, next_runs, picture_of, read_runs, rewrite, start_of

CHUNK: Final = 100
GETS_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything that judging one raw answer takes; may travel to another process."""

    run: StoredRun
    brand: BrandNames
    body: bytes


# Judges in some thread or process: pure CPU work.
Judge = Callable[[Sequence[Reading]], Awaitable[list[RunFact]]]


def judge(readings: Sequence[Reading]) -> list[RunFact]:
    """The facts that ingest would store of these bodies today."""
    return [_judge(reading) for reading in readings]


def _judge(reading: Reading) -> RunFact:
    run = reading.run
    message = ResultMessage(
        attempt_id=str(run.attempt_id),
        task_id="",
        monitor_task_id=0,
        tenant_id=run.tenant_id,
        client_id="",
        outcome="succeeded",
        received_at=run.run_at,
        raw=reading.body.decode("utf-8", "replace"),
        # What the desktop said of them is kept nowhere else.
        model=run.provider_model,
        request_id=run.request_id,
    )
    context = AttemptContext(
        run.attempt_id,
        0,
        run.tenant_id,
        run.brand_id,
        run.business_date,
        run.ai_platform_id,
        run.run_mode,
        run.question,
    )
    return interpret(message, context, reading.brand, run.raw_answer_key).fact


async def judge_in_thread(readings: Sequence[Reading]) -> list[RunFact]:
    """Beside the event loop of this process."""
    return await asyncio.to_thread(judge, readings)


class Reparse:
    """One reparse and its tally. With `dry_run` nothing is written and the tally says what would be."""

    def __init__(
        self, pool: Pool, raw_answers: RawAnswers, *, judge: Judge = judge_in_thread, dry_run: bool = False
    ) -> None:
        self._pool = pool
        self._raw_answers = raw_answers
        self._judge = judge
        self._dry_run = dry_run
        self._room = asyncio.Semaphore(GETS_AT_ONCE)
        self.tally = Tally()

    async def walk(
        self,
        selection: Selection,
        *,
        stop: asyncio.Event,
        on_progress: Callable[[Tally], None],
        limit: int | None = None,
        at_once: int = 1,
    ) -> bool:
        """Read the selection again in chunks, `at_once` at a time; False if `stop` ended it between two chunks."""
        room = asyncio.Semaphore(at_once)

        async def work(ids: Sequence[int]) -> None:
            try:
                await self.take(ids)
                on_progress(self.tally)
            finally:
                room.release()

        async with asyncio.TaskGroup() as group, aclosing(self._chunks(selection, limit)) as chunks:
            async for ids in chunks:
                await room.acquire()
                if stop.is_set():
                    return False
                group.create_task(work(ids))
        return not stop.is_set()

    async def count(self, selection: Selection, *, limit: int | None = None) -> int:
        """How many runs a walk would read now."""
        place: DayKey | None = start_of(selection)
        found = 0
        while place is not None and (limit is None or found < limit):
            wanted, place = await self._next(selection, place)
            found += len(wanted)
        return found if limit is None else min(found, limit)

    async def _chunks(self, selection: Selection, limit: int | None) -> AsyncGenerator[list[int]]:
        place: DayKey | None = start_of(selection)
        given = 0
        while place is not None:
            wanted, place = await self._next(selection, place)
            for start in range(0, len(wanted), CHUNK):
                ids = wanted[start : start + CHUNK][: None if limit is None else limit - given]
                if not ids:
                    return
                given += len(ids)
                yield ids

    async def _next(self, selection: Selection, place: DayKey) -> tuple[list[int], DayKey | None]:
        return await through_outages(lambda: next_runs(self._pool, selection, place), "reparse")

    async def take(self, run_ids: Sequence[int]) -> None:
        """Read one chunk of runs again and write what is new, in one transaction."""
        readings = await self._read(run_ids)
        facts = await self._judge(readings)
        self.tally.runs += len(readings)
        judged = [(each.run, fact) for each, fact in zip(readings, facts, strict=True) if not _is_ours(fact)]
        self.tally.unparsed += len(readings) - len(judged)
        await self._settle(judged)

    async def _read(self, run_ids: Sequence[int]) -> list[Reading]:
        runs = await through_outages(lambda: read_runs(self._pool, run_ids), "reparse")
        bodies = await asyncio.gather(*(self._body(run.raw_answer_key) for run in runs))
        # After the bodies, which a store that is away may keep for hours: names as they are when they are searched for.
        owners = {(run.tenant_id, run.brand_id) for run in runs}
        brands = await through_outages(lambda: read_brands(self._pool, owners), "reparse")
        self.tally.missing_raw += sum(body is None for body in bodies)
        pairs = zip(runs, bodies, strict=True)
        # A brand that was deleted meanwhile took its runs along.
        return [
            Reading(run, brands[run.brand_id], body)
            for run, body in pairs
            if body is not None and run.brand_id in brands
        ]

    async def _body(self, key: str) -> bytes | None:
        async with self._room:
            try:
                return await through_outages(lambda: self._raw_answers.get(key), "reparse")
            except (NotFound, RawAnswerRefused):
                return None

    async def _settle(self, judged: Sequence[tuple[StoredRun, RunFact]]) -> None:
        """Compare, write and count. What the database does not take costs its own run alone."""
        changes = {run.id: Change(run, after) for run, fact in judged if (after := picture_of(fact)) != run.picture}
        try:
            taken = await self._write(judged, changes.keys())
        except Exception as error:
            if not is_poison(error):
                raise
            await self._one_by_one(judged)
            return
        self.tally.overtaken += len(judged) - len(taken)
        self.tally.days |= {run.day for run, _ in judged if run.unsearched and run.id in taken}
        for run_id, change in changes.items():
            if run_id in taken:
                self.tally.add(change)

    async def _write(self, judged: Sequence[tuple[StoredRun, RunFact]], changed: Collection[int]) -> set[int]:
        if self._dry_run:
            return {run.id for run, _ in judged}
        rewritten = [(run, fact) for run, fact in judged if run.id in changed]
        unchanged = [run for run, _ in judged if run.id not in changed]
        return await through_outages(lambda: rewrite(self._pool, rewritten, unchanged), "reparse")

    async def _one_by_one(self, judged: Sequence[tuple[StoredRun, RunFact]]) -> None:
        if len(judged) == 1:
            self.tally.unparsed += 1
            return
        for each in judged:
            await self._settle([each])


def _is_ours(fact: RunFact) -> bool:
    """Our own program failed on the answer: what is stored of it is better than nothing."""
    return fact.failure_kind == PARSER_ERROR
