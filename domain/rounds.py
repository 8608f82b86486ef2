"""One round of the coordinator, in memory: which waiting tasks go to which desktop now (1-dispatch §1.3, §1.4)."""

from collections import Counter
from collections.abc import Iterable, Sequence

from domain.admission import Admission
from domain.budgets import MINUTES, Refusal
from domain.desks import Desk
from domain.fairness import FairShares, Turns
from domain.lanes import Lane
from domain.quota import Quota
from domain.round_state import (
    EVERYBODY,
    Candidate,
    Hold,
    Live,
    Pick,
    Reason,
    RoundPlan,
    RoundState,
    dispatch_order,
)

__all__ = ["EVERYBODY", "Candidate", "Hold", "Live", "Pick", "RoundPlan", "RoundState", "dispatch_order", "plan_round"]


def plan_round(
    state: RoundState,
    candidates: Iterable[Candidate],
    shares: FairShares | None = None,
    *,
    limit: int | None = None,
) -> RoundPlan:
    """Pick each candidate that every rule and budget allows: high, then scheduled work in fair shares, then retries.

    The same reading gives the same plan, whatever the order of the candidates. `shares` remembers between rounds who
    was served, and is charged with the picks; without it all tenants start even. `limit`: at most so many picks.
    """
    ordered = sorted(candidates, key=dispatch_order)
    planner = _Planner(state, ordered, len(ordered) if limit is None else limit)
    planner.plan(ordered, FairShares() if shares is None else shares)
    return RoundPlan(tuple(planner.picks), planner.refusals, planner.full_minutes, planner.lacking())


class _Planner:
    """One round under way."""

    def __init__(self, state: RoundState, ordered: Sequence[Candidate], limit: int) -> None:
        self.picks: list[Pick] = []
        self.refusals: Counter[Refusal] = Counter()
        self.full_minutes: dict[int, int] = {}
        self._lacking = {"scheduled": 0, "high": 0}
        if state.share_used_up is not None:
            self.full_minutes[EVERYBODY] = state.share_used_up
        self._state = state
        self._limit = limit
        self._admission = Admission(state, ordered)

    def plan(self, ordered: Sequence[Candidate], shares: FairShares) -> None:
        """High first. What high leaves to the floor is normal's; what normal makes no use of is high's again."""
        high: list[Candidate] = []
        normal = Turns(shares.scheduled, self._state.weights)
        retry = Turns(shares.retry, self._state.weights)
        for task in ordered:
            if self._admission.hold(task) is None:
                if task.lane is Lane.HIGH:
                    high.append(task)
                else:
                    (retry if task.lane is Lane.RETRY else normal).add(task)
        left = self._drain(high)
        self._share(normal)
        self._turn_away(Refusal.CLUSTER_MINUTE, self._drain(left))
        self._share(retry)

    def lacking(self) -> Quota | None:
        """Permits that a quota had too few of."""
        return None if self._state.quota is None else Quota(**self._lacking)

    @property
    def _enough(self) -> bool:
        return len(self.picks) >= self._limit

    def _drain(self, high: Sequence[Candidate]) -> list[Candidate]:
        """Pick high work in order; returns what the cluster's minute turned away."""
        left = []
        for task in high:
            if self._enough:
                break
            if self._place(task) is Refusal.CLUSTER_MINUTE:
                left.append(task)
        return left

    def _share(self, turns: Turns) -> None:
        """Pick in turns; a full minute turns away all that it concerns at once."""
        while turns and not self._enough:
            task = turns.next()
            reason = self._place(task)
            if reason is None:
                turns.served()
            elif reason is Refusal.CLUSTER_MINUTE:
                self._turn_away(reason, [task, *turns.end()])
            elif reason is Refusal.TENANT_MINUTE:
                self._turn_away(reason, [task, *turns.leave()])
            else:
                turns.passed_over()
        turns.settle()

    def _place(self, task: Candidate) -> Reason | None:
        """Pick the task for the best desktop that may take it; else what stopped it, counted unless a minute did."""
        found = self._admission.find(task)
        if isinstance(found, Desk):
            self._admission.take(task, found)
            self.picks.append(Pick(task, found.client_id))
            return None
        if isinstance(found, Refusal) and found not in MINUTES:
            self.refusals[found] += 1
        return found

    def _turn_away(self, refusal: Refusal, tasks: Sequence[Candidate]) -> None:
        """Count what a full minute turned away, and note what its window must fall below."""
        if not tasks:
            return
        self.refusals[refusal] += len(tasks)
        task = tasks[0]
        if refusal is Refusal.TENANT_MINUTE:
            self.full_minutes[task.tenant_id] = self._admission.full_minute(task, refusal)
        elif self._state.quota is not None:
            self._lacking["high" if task.lane is Lane.HIGH else "scheduled"] += len(tasks)
        else:
            ceiling = self._admission.full_minute(task, refusal)
            self.full_minutes[EVERYBODY] = max(ceiling, self.full_minutes.get(EVERYBODY, 0))
