"""What a scenario says about the client on the stage."""

import time
from collections.abc import Callable
from typing import Any, Final

from desktop.conformance.bringing import Bringer
from desktop.conformance.heard import HeardCall, Record, Visit
from desktop.conformance.ledger import RUNNING, Lease
from desktop.conformance.pace import ClientPace
from desktop.conformance.stage import Stage
from desktop.conformance.verdict import CannotCheck, expect
from domain.ids import new_uuid
from domain.lanes import Kind, Lane, rule_of
from domain.protocol import CloseCode, Control, Hello

# A client with more slots would need as many tasks held back at once.
MOST_SLOTS: Final = 16
STOPS: Final = ("cancel", "interrupt-ack")


class Play:
    """One client, scenario after scenario."""

    def __init__(self, stage: Stage, bringer: Bringer) -> None:
        self.stage = stage
        self.times: list[float] = []
        self._bringer = bringer
        # Nobody expects it to be here: not started yet, or told not to come back.
        self._dismissed = True
        self._brought = False

    @property
    def pace(self) -> ClientPace:
        """How long things may take."""
        return self.stage.pace

    @property
    def record(self) -> Record:
        """What was heard."""
        return self.stage.record

    # --- the connection ---------------------------------------------------------------------------------------

    async def comes(self) -> Visit:
        """The client has tried to connect, whatever came of it; started if it has to be. CannotCheck if it does not."""
        await self._bring()
        if not await self.stage.signal.comes(lambda: self.record.visits or self.record.breaches, self._patience()):
            raise CannotCheck(f"no client has connected within {self._patience():g} s")
        expect(self.record.visits, "a connection to the hub's path", "; ".join(self.record.breaches))
        return self.record.visits[-1]

    async def present(self) -> Visit:
        """The client is connected and greeted; started if it has to be. CannotCheck when it does not come."""
        await self._bring()
        patience = self._patience()
        if not await self.stage.signal.comes(lambda: self.stage.visit, patience):
            # It may have died of the scenario before: the next one starts it again.
            self._dismissed, self._brought = True, False
            raise CannotCheck(f"no client has connected and said hello within {patience:g} s")
        self._dismissed = False
        assert self.stage.visit is not None
        return self.stage.visit

    async def _bring(self) -> None:
        if self.stage.visit is None and self._dismissed and not self._brought:
            await self._bringer.bring(self.stage.address)
            self._brought = True

    def _patience(self) -> float:
        return self.pace.arrival if self._dismissed else self.pace.patience

    async def comes_back(self, after: int, expected: str) -> Hello:
        """Wait for a greeted connection newer than the visit; its hello."""
        await self.until(lambda: self.stage.visit and self.stage.visit.number > after, expected)
        visit = self.stage.visit
        hello = self.record.hello_of(visit.number) if visit else None
        # It may have gone again at once: then its hello is the newest one.
        return hello or self.record.of(Hello)[-1]

    async def stays_away(self, after: int, why: str) -> None:
        """RuleBroken if a connection newer than the visit comes while it is watched."""
        came = await self.stage.signal.comes(lambda: len(self.record.visits) > after, self.pace.watch)
        expect(not came, f"no new connection after {why} ({self.pace.watch:g} s)", "a new connection")
        self._dismissed, self._brought = True, False

    async def until(
        self, condition: Callable[[], object], expected: str, seen: Callable[[], object] = lambda: "nothing"
    ) -> None:
        """Wait as long as a step may take; RuleBroken."""
        await self.stage.signal.until(condition, self.pace.patience, expected, seen)

    # --- tasks ------------------------------------------------------------------------------------------------

    async def push(self, lane: Lane = Lane.NORMAL, **changes: Any) -> Lease:
        """Lease and push a task."""
        lease = self.stage.ledger.grant(self.stage.make.task(lane, **changes))
        await self.stage.send(lease.frame)
        return lease

    async def push_held(self, lane: Lane = Lane.NORMAL, **changes: Any) -> Lease:
        """Push a task whose start call is made and not answered until its gate opens: it runs, and nothing is done."""
        lease = self.stage.ledger.grant(self.stage.make.task(lane, **changes))
        lease.gate.clear()
        await self.stage.send(lease.frame)
        await self.until(lambda: lease.status == RUNNING, "a start call", lambda: self.record.told(lease.frame.task_id))
        return lease

    async def fill(self) -> list[Lease]:
        """Held tasks in every slot. CannotCheck when the client has too many."""
        slots = self.stage.ledger.slots
        if slots > MOST_SLOTS:
            raise CannotCheck(f"the client has {slots} slots; this is tried with at most {MOST_SLOTS}")
        return [await self.push_held() for _ in range(slots)]

    async def order(self, lease: Lease, control: Control, generation: int) -> None:
        """Send an order about a task, and remember it as the server does."""
        if generation >= lease.generation:
            lease.generation = generation
            lease.interrupted = control is Control.INTERRUPT_REQUESTED
        if control is Control.CANCELED:
            lease.valid = False
        await self.stage.send(self.stage.make.order(lease.frame.task_id, control, generation))

    async def interrupt(self, lease: Lease) -> int:
        """Order it to give way, at a new generation."""
        generation = self.stage.next_generation()
        await self.order(lease, Control.INTERRUPT_REQUESTED, generation)
        return generation

    async def ended(self, lease: Lease) -> HeardCall:
        """The result was taken."""
        task_id = lease.frame.task_id
        await self.until(
            lambda: self.record.done(task_id, "result"), "a result that is taken", lambda: self.record.told(task_id)
        )
        return self.record.done(task_id, "result")[0]

    async def all_ended(self, *leases: Lease) -> None:
        """The results of all were taken."""
        for lease in leases:
            await self.ended(lease)

    async def stopped(self, lease: Lease) -> HeardCall:
        """It gave way or went back: the call that was accepted. A result instead breaks the rule."""
        task_id = lease.frame.task_id
        await self.until(
            lambda: self.record.done(task_id, *STOPS, "result"),
            "interrupt-ack at the next safe point",
            lambda: self.record.told(task_id),
        )
        call = self.record.done(task_id, *STOPS, "result")[0]
        expect(call.action in STOPS, "interrupt-ack at the next safe point", f"the order ignored: {call.action}")
        return call

    async def caught_up(self) -> None:
        """Everything sent so far has been acted on: the client answers an order about work that it never had."""
        order = self.stage.make.order(str(new_uuid()), Control.INTERRUPT_REQUESTED, self.stage.next_generation())
        await self.stage.send(order)
        await self.until(
            lambda: self.record.done(order.task_id, "interrupt-ack"),
            "interrupt-ack without a lease token, to an order about a task that it does not hold",
            lambda: self.record.told(order.task_id),
        )

    async def last_in_line(self) -> None:
        """A least urgent task runs to its end: whatever waited before it has had its turn."""
        lowest = rule_of(Kind.MONITOR, Lane.RETRY).lowest
        await self.ended(await self.push(Lane.RETRY, priority=lowest))

    async def quiet_about(self, lease: Lease, rule: str, *, since: float, actions: tuple[str, ...] = ()) -> None:
        """No call about the task began after `since` (monotonic), until others had their turn."""
        await self.last_in_line()
        late = [call for call in self.record.called(lease.frame.task_id, *actions) if call.at > since]
        expect(not late, rule, ", ".join(f"{call.action} {call.status}" for call in late))

    def now(self) -> float:
        """The clock of the record."""
        return time.monotonic()

    # --- between scenarios ------------------------------------------------------------------------------------

    async def clear(self) -> None:
        """After a failure: nothing of the scenario is left, here or on the client."""
        self.stage.greeting, self.stage.refuse_with = None, None
        for lease in self.stage.ledger.leases.values():
            lease.valid = False
            lease.gate.set()
        self.stage.ledger.offers.clear()
        visit = self.stage.visit
        if visit is not None:
            await self.stage.close(CloseCode.SERVICE_RESTART)
            await self.stage.signal.comes(lambda: visit.closed_at, self.pace.patience)

    async def finish(self) -> None:
        """The last scenario is over."""
        await self.clear()
        await self._bringer.finish()
