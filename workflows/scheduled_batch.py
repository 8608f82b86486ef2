"""One scheduled batch, from its tasks' creation to the last settled one (1-dispatch §1.6)."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError, FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.batches import BatchActivities
    from domain.errors import BatchOver
    from domain.messages import (
        BatchCounters,
        BatchOrder,
        BatchRef,
        BatchStart,
        BatchYield,
        CarriedBatch,
        MaterialiseChunk,
        Preempted,
        Progress,
        Resumed,
    )
    from workflows import batch_view
    from workflows.alarm import Alarm

CHUNK = 2000
# After the cut-off: tasks of live requests come back one by one, so look again.
RECHECK = timedelta(minutes=10)
HISTORY_LIMIT = 350
REMEMBERED_SIGNALS = 200

RETRY = RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=5))

Effect = Callable[[BatchActivities, BatchRef], Coroutine[Any, Any, BatchCounters]]


@workflow.defn(name="ScheduledBatch")
class ScheduledBatch:
    """Materialises, follows progress, keeps its clients' yields by generation, and cuts off what is left."""

    @workflow.init
    def __init__(self, start: BatchStart) -> None:
        carried = start.carried or CarriedBatch()
        self._start = start
        self._materialised, self._all_materialised = carried.materialised, carried.all_materialised
        self._materialised_after = carried.materialised_after
        self._expected, self._settled = carried.expected, carried.settled
        self._cut_off_done = carried.cut_off_done
        self._yields = {given.client_id: given for given in carried.yields}
        self._resumed = dict(carried.resumed)
        self._seen = dict.fromkeys(carried.seen)
        self._gave_way, self._dispatched = carried.gave_way, carried.dispatched
        self._newest_yield = carried.newest_yield
        self._shown_yield: tuple[UUID, int] | None = None
        self._counters: BatchCounters | None = None
        self._recheck_at = carried.recheck_at or start.cut_off_at
        self._cancelling, self._cancel_applied, self._over = carried.cancelling, False, False
        self._news = False
        self._alarm = Alarm()
        # Orders of persons, one after the other.
        self._orders = asyncio.Lock()

    @workflow.run
    async def run(self, start: BatchStart) -> BatchCounters:
        """Run to the end; a cancel skips what waits and lets what runs finish."""
        try:
            counters = await self._follow()
        except (asyncio.CancelledError, FailureError) as error:
            # A cancel that interrupts an effect arrives as that effect's failure.
            if is_cancelled_exception(error):
                await self._wind_down()
            await self._leave()
            raise
        await self._leave()
        return counters

    async def _leave(self) -> None:
        self._alarm.stop()
        await workflow.wait_condition(workflow.all_handlers_finished)

    # --- the signals -----------------------------------------------------------------------------------------

    def _is_new(self, outbox_id: int) -> bool:
        """Drops a repeated delivery; everything new wakes the main loop."""
        if outbox_id in self._seen:
            return False
        if outbox_id:
            self._seen[outbox_id] = None
        self._news = True
        return True

    @workflow.signal
    def progress(self, signal: Progress) -> None:
        """How many tasks are settled, and were dispatched."""
        if self._is_new(signal.outbox_id):
            self._settled, self._dispatched = signal.settled, signal.dispatched
            self._expected = self._expected if signal.expected is None else signal.expected

    @workflow.signal
    def preempted(self, signal: Preempted) -> None:
        """Tasks of this batch gave way on a client; a generation already known, or older, is ignored."""
        if not self._is_new(signal.outbox_id) or signal.generation <= self._known_generation(signal.client_id):
            return
        given = BatchYield(client_id=signal.client_id, generation=signal.generation, since=workflow.now())
        self._yields[signal.client_id] = given
        self._gave_way += signal.count
        if self._newest_yield is None or signal.generation > self._newest_yield[1]:
            self._newest_yield = (signal.client_id, signal.generation)

    @workflow.signal
    def resumed(self, signal: Resumed) -> None:
        """The client's high work is over; it may come before the yield that it ends."""
        if not self._is_new(signal.outbox_id):
            return
        self._resumed[signal.client_id] = max(signal.generation, self._resumed.get(signal.client_id, 0))
        given = self._yields.get(signal.client_id)
        if given is not None and given.generation <= signal.generation:
            del self._yields[signal.client_id]

    def _known_generation(self, client_id: UUID) -> int:
        given = self._yields.get(client_id)
        return max(given.generation if given else 0, self._resumed.get(client_id, 0))

    # --- the updates -----------------------------------------------------------------------------------------

    @workflow.update
    async def pause(self, order: BatchOrder | None = None) -> BatchCounters:
        """Nothing new is dispatched until it is resumed; what runs finishes. Pausing again changes nothing."""
        return await self._obey(BatchActivities.pause_batch, order)

    @workflow.update
    async def resume(self, order: BatchOrder | None = None) -> BatchCounters:
        """What the pause held may go again, as it was. Resuming a batch that runs changes nothing."""
        return await self._obey(BatchActivities.resume_batch, order)

    @workflow.update
    async def cancel(self, order: BatchOrder | None = None) -> BatchCounters:
        """The same as cancelling the workflow, which then closes as completed, with the status `cancelled`."""
        return await self._obey(BatchActivities.cancel_batch, order)

    @pause.validator
    def _may_pause(self, order: BatchOrder | None = None) -> None:
        self._refuse_if_over()

    @resume.validator
    def _may_resume(self, order: BatchOrder | None = None) -> None:
        self._refuse_if_over()

    @cancel.validator
    def _may_cancel(self, order: BatchOrder | None = None) -> None:
        self._refuse_if_over()

    def _refuse_if_over(self) -> None:
        if self._over or self._cancelling:
            raise self._refusal("is over" if self._over else "is being cancelled")

    def _refusal(self, what: str) -> ApplicationError:
        return ApplicationError(f"batch {self._start.batch_id} {what}", type=BatchOver.code, non_retryable=True)

    async def _obey(self, effect: Effect, order: BatchOrder | None) -> BatchCounters:
        async with self._orders:
            self._refuse_if_over()
            counters = await self._apply(effect, actor=(order or BatchOrder()).actor)
            if counters.status in ("completed", "cancelled"):
                # It ended before the order, which did nothing; the main loop is about to hear of it.
                raise self._refusal("is over")
            if counters.status == "cancelling":
                self._cancelling = self._cancel_applied = True
                self._recheck_at = workflow.now() + RECHECK
            batch_view.tag_status(counters.status)
            self._show()
            self._news = True
            return counters

    # --- what the workflow does ------------------------------------------------------------------------------

    async def _follow(self) -> BatchCounters:
        if self._start.carried is None:
            batch_view.tag_start(self._start)
        await self._materialise()
        while not self._cancelling:
            counters = await self._finish_if_settled()
            if counters is not None:
                return counters
            await self._wait_for_news()
            await self._act()
            await self._continue_if_long()
        return await self._wind_down()

    async def _materialise(self) -> None:
        """Create the tasks in chunks; each is idempotent, so a repeated one costs nothing."""
        while not self._all_materialised:
            chunk = MaterialiseChunk(
                batch_id=self._start.batch_id,
                tenant_id=self._start.tenant_id,
                offset=self._materialised,
                size=CHUNK,
                after=self._materialised_after,
            )
            done = await workflow.execute_local_activity_method(
                BatchActivities.materialise, chunk, start_to_close_timeout=timedelta(seconds=30), retry_policy=RETRY
            )
            self._materialised, self._expected = done.next_offset, done.expected
            self._materialised_after, self._all_materialised = done.after, done.done
        counters = await self._apply(BatchActivities.read_batch)
        # Taken up again after its workflow was lost.
        self._cancelling = self._cancelling or counters.status == "cancelling"
        self._show()

    async def _finish_if_settled(self) -> BatchCounters | None:
        """The database decides: a task that a collect-now reopened keeps the batch open."""
        if self._settled < self._expected:
            return None
        counters = await self._apply(BatchActivities.finish_batch)
        self._over = counters.status in ("completed", "cancelled")
        if self._over:
            batch_view.tag_status(counters.status)
        self._show()
        return counters if self._over else None

    async def _wait_for_news(self) -> None:
        self._alarm.set(min([self._recheck_at, *map(self._overdue_at, self._yields.values())]))
        await workflow.wait_condition(lambda: self._news or self._alarm.rang)
        self._news = False

    def _overdue_at(self, given: BatchYield) -> datetime:
        return given.since + timedelta(milliseconds=self._start.hard_timeout_ms)

    async def _act(self) -> None:
        now = workflow.now()
        for given in list(self._yields.values()):
            if now >= self._overdue_at(given):
                effect = BatchActivities.rebalance_batch
                await self._apply(effect, client_id=given.client_id, generation=given.generation)
                self._end_yield(given)
        if now >= self._recheck_at:
            self._cut_off_done = True
            self._recheck_at = now + RECHECK
            await self._apply(BatchActivities.expire_batch)
        self._show()

    def _end_yield(self, given: BatchYield) -> None:
        """Unless the client has given way anew meanwhile."""
        if self._yields.get(given.client_id) is given:
            del self._yields[given.client_id]
        self._resumed[given.client_id] = max(given.generation, self._resumed.get(given.client_id, 0))

    async def _continue_if_long(self) -> None:
        """At most 400 events in one history."""
        if workflow.info().get_current_history_length() < HISTORY_LIMIT:
            return
        await workflow.wait_condition(workflow.all_handlers_finished)
        workflow.continue_as_new(self._start.model_copy(update={"carried": self._carry()}))

    def _carry(self) -> CarriedBatch:
        return CarriedBatch(
            materialised=self._materialised,
            all_materialised=self._all_materialised,
            expected=self._expected,
            settled=self._settled,
            cut_off_done=self._cut_off_done,
            yields=tuple(self._yields.values()),
            seen=tuple(self._seen)[-REMEMBERED_SIGNALS:],
            gave_way=self._gave_way,
            dispatched=self._dispatched,
            newest_yield=self._newest_yield,
            recheck_at=self._recheck_at,
            resumed=self._resumed,
            materialised_after=self._materialised_after,
            cancelling=self._cancelling,
        )

    async def _wind_down(self) -> BatchCounters:
        """Cancelled: what waits is skipped; tasks of live requests come back one by one, so look again."""
        self._cancelling = True
        while True:
            self._yields.clear()
            if not self._cancel_applied or workflow.now() >= self._recheck_at:
                self._cancel_applied = True
                self._recheck_at = workflow.now() + RECHECK
                await self._apply(BatchActivities.cancel_batch, actor=BatchOrder().actor)
            counters = await self._finish_if_settled()
            if counters is not None:
                return counters
            self._show()
            await self._wait_for_news()

    async def _apply(self, effect: Effect, **given: Any) -> BatchCounters:
        ref = BatchRef(batch_id=self._start.batch_id, tenant_id=self._start.tenant_id, **given)
        counters = await workflow.execute_local_activity_method(
            effect,
            ref,
            start_to_close_timeout=timedelta(seconds=30),
            retry_policy=RETRY,
        )
        self._counters, self._expected, self._settled = counters, counters.expected, counters.settled
        return counters

    def _show(self) -> None:
        view = batch_view.BatchView(
            self._counters, self._expected, self._settled, self._dispatched, self._gave_way, self._yields.values()
        )
        batch_view.show(view)
        # Several signals of one task are one event.
        if self._newest_yield is not None and self._newest_yield != self._shown_yield:
            self._shown_yield = self._newest_yield
            batch_view.tag_yield(*self._newest_yield)
