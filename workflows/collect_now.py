"""One collect-now request, from the accept to its last task (1-dispatch §1.5).

The workflow waits on signals and timers and acts by local activities; the truth is the request's row. A lost signal
costs latency only: at every deadline the effect looks at the database again. A run that lost its accept (a worker was
killed before it answered, a reset) finds it in the row.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError, FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.requests import RequestActivities
    from domain.hints import WAITING_FOR_DISPATCH, WAITING_FOR_SAFE_POINT
    from domain.messages import (
        AcceptCommand,
        AcceptOutcome,
        AcceptResult,
        ClientBound,
        ClientLost,
        CollectNowResult,
        CollectNowStart,
        Dispatched,
        InterruptSettled,
        InterruptsInherited,
        RequestCounters,
        RequestRef,
        Superseded,
        TasksTerminal,
    )
    from workflows.alarm import Alarm
    from workflows.request_state import Interrupt, RequestState
    from workflows.request_view import RequestView

ACCEPT_WITHIN = timedelta(seconds=10)

RETRY = RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=5))

Answer = TypeVar("Answer")
Effect = Callable[[RequestActivities, RequestRef], Coroutine[Any, Any, RequestCounters]]


@workflow.defn(name="CollectNow")
class CollectNow:
    """Follows one request; signal handlers only record, the main loop acts."""

    @workflow.init
    def __init__(self, start: CollectNowStart) -> None:
        self._start = start
        self._state = RequestState()
        self._news = False
        self._closing = False
        self._view = RequestView(start, self._state)
        self._alarm = Alarm()

    @workflow.run
    async def run(self, start: CollectNowStart) -> CollectNowResult:
        """Wait for the accept, follow the request to its end; a cancel withdraws it first."""
        try:
            result = await self._follow()
        except (asyncio.CancelledError, FailureError) as error:
            # A cancel that interrupts an effect arrives as that effect's failure.
            if is_cancelled_exception(error):
                await self._withdraw()
            await self._leave()
            raise
        await self._leave()
        return result

    async def _leave(self) -> None:
        self._alarm.stop()
        await workflow.wait_condition(workflow.all_handlers_finished)

    # --- the update ------------------------------------------------------------------------------------------

    @workflow.update
    async def accept(self, command: AcceptCommand) -> AcceptResult:
        """Run the accept transaction; the same answer when it is asked again."""
        if self._state.accepted is None:
            result = await workflow.execute_local_activity_method(
                RequestActivities.accept_request,
                command,
                start_to_close_timeout=timedelta(seconds=4),
                schedule_to_close_timeout=timedelta(seconds=8),
                retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=50)),
            )
            self._state.record_accept(result, workflow.now())
            self._news = True
        assert self._state.accepted is not None
        return self._state.accepted

    @accept.validator
    def refuse_late(self, command: AcceptCommand) -> None:
        """Past the allowance the caller has been told 503: accepting now would surprise.

        Judged by one clock, the server's: the start came with the call, so it stands for the caller's own time.
        """
        allowed = workflow.info().workflow_start_time + timedelta(seconds=command.valid_seconds)
        if self._closing or (self._state.accepted is None and workflow.now() > allowed):
            raise ApplicationError("the accept came after its deadline; send the call again", type="deadline_passed")

    # --- the signals -----------------------------------------------------------------------------------------

    def _is_new(self, outbox_id: int) -> bool:
        """Drops a repeated delivery; everything new wakes the main loop."""
        if not self._state.first_time(outbox_id):
            return False
        self._news = True
        return True

    @workflow.signal
    def dispatched(self, signal: Dispatched) -> None:
        """The first frame was written."""
        if self._is_new(signal.outbox_id):
            self._state.dispatch(signal.count)

    @workflow.signal
    def interrupt_settled(self, signal: InterruptSettled) -> None:
        """A victim stopped, finished or was revoked."""
        if self._is_new(signal.outbox_id):
            self._state.settle(signal, workflow.now())

    @workflow.signal
    def interrupts_inherited(self, signal: InterruptsInherited) -> None:
        """A request that is over has left its victims to this one."""
        if self._is_new(signal.outbox_id):
            self._state.inherit(signal, workflow.now())

    @workflow.signal
    def client_lost(self, signal: ClientLost) -> None:
        """30 s of silence on the client."""
        if self._is_new(signal.outbox_id):
            self._state.lose(signal)

    @workflow.signal
    def client_bound(self, signal: ClientBound) -> None:
        """The coordinator found a client; an older binding than the one known is ignored."""
        if self._is_new(signal.outbox_id):
            self._state.bind(signal.client_id, signal.generation, signal.interrupts, workflow.now())

    @workflow.signal
    def tasks_terminal(self, signal: TasksTerminal) -> None:
        """Counters of the request."""
        if self._is_new(signal.outbox_id):
            self._state.count(signal)

    @workflow.signal
    def superseded(self, signal: Superseded) -> None:
        """A newer accept took everything that was left."""
        if self._is_new(signal.outbox_id):
            self._state.superseded_by, self._state.said_to_end = signal.by, True

    # --- what the workflow does ------------------------------------------------------------------------------

    async def _follow(self) -> CollectNowResult:
        await self._wait_for_accept()
        accepted = self._state.accepted
        if accepted is None or accepted.outcome is not AcceptOutcome.ACCEPTED:
            self._state.status = self._view.show_nothing(accepted)
            return CollectNowResult(status=self._state.status)
        self._view.show_accepted(accepted)
        while not self._state.ended:
            await self._wait_for_news()
            await self._act()
        if self._state.awaits_victims:
            await self._run(RequestActivities.withdraw_interrupts, self._ref())
        return self._conclude()

    async def _wait_for_accept(self) -> None:
        """Update-with-start is not atomic: a run without an accepted update must not stay open."""
        if not self._start.resume:
            with suppress(TimeoutError):
                await workflow.wait_condition(lambda: self._state.accepted is not None, timeout=ACCEPT_WITHIN)
        await self._settle_accept()

    async def _settle_accept(self) -> None:
        """From here on no accept comes in. One that this run does not know of may have committed: the row says."""
        self._closing = self._state.accepted is None
        await workflow.wait_condition(workflow.all_handlers_finished)
        if self._state.accepted is not None:
            return
        found = await self._run(RequestActivities.find_accepted, self._ref())
        if found is not None:
            self._state.record_accept(found, workflow.now())
            self._state.said_to_end = self._news = True

    async def _wait_for_news(self) -> None:
        self._alarm.set(min(self._state.deadlines()))
        await workflow.wait_condition(lambda: self._news or self._alarm.rang)
        self._news = False

    async def _act(self) -> None:
        """Whatever is due now, in the order of the specification's table."""
        await self._release_lost_clients()
        await self._warn_if_undispatched()
        await self._chase_interrupts()
        await self._end_if_due()
        self._view.show()

    async def _release_lost_clients(self) -> None:
        while self._state.lost_clients:
            client_id = self._state.lost_clients.pop(0)
            await self._apply(RequestActivities.release_client, self._ref(client_id=client_id))
            if self._state.client_id == client_id:
                self._state.client_id = None

    async def _warn_if_undispatched(self) -> None:
        state = self._state
        if state.dispatched or state.warned or workflow.now() < self._state.warn_at:
            return
        state.warned = True
        await self._hint(WAITING_FOR_DISPATCH)
        if not state.dispatched:
            workflow.logger.warning("nothing dispatched within 30 s")

    async def _chase_interrupts(self) -> None:
        now = workflow.now()
        for (client_id, generation), asked in list(self._state.interrupts.items()):
            late = self._ref(client_id=client_id, generation=generation, waited_ms=asked.waited_ms(now))
            if asked.outstanding and not asked.soft_noted and now >= self._state.soft_at(asked):
                await self._note_soft(asked, late, now)
            if asked.outstanding and not asked.released and now >= self._state.hard_at(asked):
                await self._release(asked, late, now)
        if self._state.hint == WAITING_FOR_SAFE_POINT and not self._state.waits_for_safe_point:
            await self._hint(None)

    async def _note_soft(self, asked: Interrupt, late: RequestRef, now: datetime) -> None:
        """The hint, if a victim is late by the timeouts set now; else it is looked at again when the first one is."""
        effect = RequestActivities.set_request_hint
        counters = await self._apply(effect, late.model_copy(update={"reason": WAITING_FOR_SAFE_POINT}))
        asked.soft_noted = not counters.soft_in_ms
        asked.look_again(counters, now)

    async def _release(self, asked: Interrupt, late: RequestRef, now: datetime) -> None:
        """Victims that are late by the timeouts set now lose their leases; the others are looked at again."""
        counters = await self._apply(RequestActivities.force_release, late)
        asked.released = counters.hard_in_ms is None
        asked.look_again(counters, now)
        if counters.touched:
            workflow.logger.error("interrupt not settled at the hard timeout; %d leases revoked", counters.touched)

    async def _hint(self, reason: str | None) -> None:
        await self._apply(RequestActivities.set_request_hint, self._ref(reason=reason))

    async def _end_if_due(self) -> None:
        state, now = self._state, workflow.now()
        if state.said_to_end:
            state.said_to_end = False
            await self._apply(RequestActivities.read_request)
        if not state.ended and not state.dispatched and now >= state.ttl_at:
            await self._apply(RequestActivities.expire_request)
        if not state.ended and now >= state.hard_end_at:
            await self._apply(RequestActivities.end_request)

    async def _withdraw(self) -> None:
        """Cancelled: waiting tasks return, running ones finish and count."""
        await self._settle_accept()
        accepted = self._state.accepted
        if accepted is None or accepted.outcome is not AcceptOutcome.ACCEPTED:
            return
        while not self._state.ended:
            if self._state.withdraw_is_due(workflow.now()):
                await self._apply(RequestActivities.cancel_request)
            await self._end_if_due()
            if not self._state.ended:
                self._view.show()
                await self._wait_for_news()
        self._conclude()

    def _conclude(self) -> CollectNowResult:
        state = self._state
        self._view.show()
        return CollectNowResult(
            status=state.status,
            requested=state.requested,
            completed=state.completed,
            failed=state.failed,
            returned=state.returned,
        )

    async def _apply(self, effect: Effect, ref: RequestRef | None = None) -> RequestCounters:
        """Run one effect and take over what the request is after it."""
        counters = await self._run(effect, ref or self._ref())
        self._state.take_over(counters)
        return counters

    def _ref(self, **given: Any) -> RequestRef:
        return RequestRef(request_id=self._start.request_id, tenant_id=self._start.tenant_id, **given)

    async def _run(
        self, activity: Callable[[RequestActivities, RequestRef], Coroutine[Any, Any, Answer]], ref: RequestRef
    ) -> Answer:
        return await workflow.execute_local_activity_method(
            activity, ref, start_to_close_timeout=timedelta(seconds=10), retry_policy=RETRY
        )
