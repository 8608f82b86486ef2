"""One scheduled batch, from its tasks' creation to the last settled one (1-dispatch §1.6)."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.batches import BatchActivities
    from domain.messages import (
        BatchCounters,
        BatchRef,
        BatchStart,
        BatchYield,
        CarriedBatch,
        MaterialiseChunk,
        Preempted,
        Progress,
        Resumed,
        SearchAttribute,
    )
    from workflows.alarm import Alarm

CHUNK = 2000
# After the cut-off: tasks of live requests come back one by one, so look again.
RECHECK = timedelta(minutes=10)
HISTORY_LIMIT = 350
REMEMBERED_SIGNALS = 200

TENANT = SearchAttributeKey.for_keyword(SearchAttribute.TENANT)
BRAND = SearchAttributeKey.for_keyword(SearchAttribute.BRAND)
CLIENT = SearchAttributeKey.for_keyword(SearchAttribute.CLIENT)
BUSINESS_DATE = SearchAttributeKey.for_keyword(SearchAttribute.BUSINESS_DATE)
STATUS = SearchAttributeKey.for_keyword(SearchAttribute.STATUS)
GENERATION = SearchAttributeKey.for_int(SearchAttribute.GENERATION)

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
        self._cancel_applied = False
        self._news = False
        self._alarm = Alarm()

    @workflow.run
    async def run(self, start: BatchStart) -> BatchCounters:
        """Run to the end; a cancel skips what waits and lets what runs finish."""
        try:
            counters = await self._follow()
        except (asyncio.CancelledError, FailureError) as error:
            # A cancel that interrupts an effect arrives as that effect's failure.
            if is_cancelled_exception(error):
                await self._cancel()
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

    # --- what the workflow does ------------------------------------------------------------------------------

    async def _follow(self) -> BatchCounters:
        self._show_start()
        await self._materialise()
        while True:
            counters = await self._finish_if_settled()
            if counters is not None:
                return counters
            await self._wait_for_news()
            await self._act()
            await self._continue_if_long()

    async def _materialise(self) -> None:
        """Create the tasks in chunks; each is idempotent, so a repeated one costs nothing."""
        while not self._all_materialised:
            chunk = MaterialiseChunk(
                batch_id=self._start.batch_id,
                tenant_id=self._start.tenant_id,
                offset=self._materialised,
                size=CHUNK,
            )
            done = await workflow.execute_local_activity_method(
                BatchActivities.materialise, chunk, start_to_close_timeout=timedelta(seconds=30), retry_policy=RETRY
            )
            self._materialised, self._expected = done.next_offset, done.expected
            self._all_materialised = done.done
        await self._apply(BatchActivities.read_batch)
        self._show()

    async def _finish_if_settled(self) -> BatchCounters | None:
        """The database decides: a task that a collect-now reopened keeps the batch open."""
        if self._settled < self._expected:
            return None
        counters = await self._apply(BatchActivities.finish_batch)
        if counters.status not in ("completed", "cancelled"):
            self._show()
            return None
        self._show_end()
        return counters

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
                await self._apply(BatchActivities.rebalance_batch, given.client_id, given.generation)
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
        )

    async def _cancel(self) -> None:
        """What waits is skipped; tasks of live requests come back one by one, so look again."""
        while True:
            self._yields.clear()
            if not self._cancel_applied or workflow.now() >= self._recheck_at:
                self._cancel_applied = True
                self._recheck_at = workflow.now() + RECHECK
                await self._apply(BatchActivities.cancel_batch)
            if await self._finish_if_settled() is not None:
                return
            self._show()
            await self._wait_for_news()

    async def _apply(
        self, effect: Effect, client_id: UUID | None = None, generation: int | None = None
    ) -> BatchCounters:
        ref = BatchRef(
            batch_id=self._start.batch_id, tenant_id=self._start.tenant_id, client_id=client_id, generation=generation
        )
        counters = await workflow.execute_local_activity_method(
            effect,
            ref,
            start_to_close_timeout=timedelta(seconds=30),
            retry_policy=RETRY,
        )
        self._counters, self._expected, self._settled = counters, counters.expected, counters.settled
        return counters

    # --- what operators see ----------------------------------------------------------------------------------

    def _show_start(self) -> None:
        start = self._start
        if start.carried is None:
            workflow.upsert_search_attributes(
                [
                    TENANT.value_set(str(start.tenant_id)),
                    BRAND.value_set(str(start.brand_id)),
                    BUSINESS_DATE.value_set(start.business_date.isoformat()),
                    STATUS.value_set("running"),
                    GENERATION.value_set(0),
                ]
            )

    def _show_end(self) -> None:
        assert self._counters is not None
        workflow.upsert_search_attributes([STATUS.value_set(self._counters.status)])
        self._show()

    def _show(self) -> None:
        counters = self._counters
        status = counters.status if counters else "materialising"
        lines = [
            f"**{status}**: {self._settled} of {self._expected} tasks settled, {self._dispatched} dispatched; "
            f"{self._gave_way} gave way so far"
        ]
        if counters:
            lines.append(
                f"- {counters.completed} completed, {counters.failed} failed, {counters.skipped} skipped, "
                f"{counters.expired} expired"
            )
        lines += [
            f"- client `{given.client_id}` yields since {given.since:%H:%M:%S}" for given in self._yields.values()
        ]
        workflow.set_current_details("\n".join(lines))
        self._show_yield()

    def _show_yield(self) -> None:
        """Whom the batch gave way on last, at which generation; several signals of one task are one event."""
        if self._newest_yield is None or self._newest_yield == self._shown_yield:
            return
        self._shown_yield = self._newest_yield
        client_id, generation = self._newest_yield
        workflow.upsert_search_attributes([CLIENT.value_set(str(client_id)), GENERATION.value_set(generation)])
