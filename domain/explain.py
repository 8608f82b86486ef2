"""Why a waiting task is not dispatched now (1-dispatch §1.3, last rule): the planner's own decision, in words."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from domain.admission import REACH, Admission
from domain.budgets import MINUTES, Check, Refusal
from domain.desks import Desk
from domain.errors import NotFound
from domain.lanes import Lane
from domain.round_state import REASONS, Candidate, Hold, Reason, RoundState, dispatch_order

# The reason code of a task that nothing stops: it goes in its turn.
MAY_GO: Final = "may_go"

_ALLOWS_NONE: Final = "The limit {reason} is 0 here; it goes when an operator raises it."

_SENTENCES: Final[dict[Reason, str]] = {
    Hold.LANE_PAUSED: "The lane {lane} is paused; it goes when an operator resumes the lane.",
    Hold.TENANT_PAUSED: "The tenant is paused; it goes when an operator resumes the tenant.",
    Hold.PLATFORM_PAUSED: "The platform {platform} is not open; it goes when an operator resumes the platform.",
    Hold.AWAITS_CLIENT: "Its request has no desktop yet; it goes when one that can take it is online.",
    Hold.RETRY_AFTER_HIGH: "Retries wait while the tenant has high work; it goes after that, or once it has aged.",
    Hold.RETRY_AFTER_NORMAL: (
        "Retries wait while {used} normal tasks of the tenant wait; it goes when fewer than {limit} do, or "
        "once it has aged."
    ),
    Hold.NO_CLIENT: "No desktop of its workspace is online; it goes when one is.",
    Hold.CLIENT_PAUSED: "The desktops that could take it are paused; it goes when an operator resumes one.",
    Hold.LOGIN_BROKEN: "No open desktop is logged in to {platform}; it goes when somebody logs in there.",
    Hold.CLIENT_HAS_HIGH: "The desktops that could take it have high work; it goes when one of them has done it.",
    Refusal.CLUSTER_MINUTE: (
        "The last 60 s had {used} dispatches (permits of other coordinators included) and this lane stops at {limit}; "
        "{it_goes} when the window falls below that."
    ),
    Refusal.TENANT_MINUTE: (
        "The tenant had {used} dispatches in the last 60 s and may have {limit}; {it_goes} when the window "
        "falls below that."
    ),
    Refusal.CLIENT_CONCURRENCY: (
        "The slots of the best desktop are taken ({used} of {limit}); {it_goes} when one is free."
    ),
    Refusal.CLIENT_QUEUE_DEPTH: (
        "The queue of the best desktop is full ({used} of {limit}); {it_goes} when one of it starts."
    ),
    Refusal.PLATFORM_CONCURRENCY: (
        "The places of {platform} are taken ({used} of {limit}); {it_goes} when one is free."
    ),
}

_RETRY_RULES: Final = frozenset({Hold.RETRY_AFTER_HIGH, Hold.RETRY_AFTER_NORMAL})
_NOT_ASKED: Final[dict[Lane, frozenset[Hold]]] = {
    Lane.HIGH: _RETRY_RULES | {Hold.CLIENT_HAS_HIGH},
    Lane.NORMAL_BOOSTED: _RETRY_RULES | {Hold.AWAITS_CLIENT},
    Lane.NORMAL: _RETRY_RULES | {Hold.AWAITS_CLIENT},
    Lane.RETRY: frozenset({Hold.AWAITS_CLIENT}),
}


@dataclass(frozen=True, slots=True)
class Step:
    """One rule or budget, in the order in which they are asked. Numbers where it has some.

    `limit` is None where the rule has no number, or the budget does not bind this lane.
    """

    name: str
    passed: bool
    used: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What keeps the task, on the desktop where it would come furthest. Source: 1-dispatch §1.3.

    `reason`: a stable code, a value of Hold or Refusal, or MAY_GO. `steps`: the rules that were asked, then
    the five budgets on that desktop. `position`: how many go before it in its tenant and platform, None if unknown.
    `estimate_seconds`: until it goes, None when that depends on what nobody can foresee.
    """

    task_id: int
    reason: str
    binding: Step | None
    client_id: UUID | None
    steps: tuple[Step, ...]
    position: int | None
    estimate_seconds: float | None
    sentence: str

    @property
    def may_go(self) -> bool:
        """Whether nothing but its turn keeps it."""
        return self.reason == MAY_GO


def explain(
    state: RoundState,
    candidates: Iterable[Candidate],
    task_id: int,
    *,
    position: int | None = None,
    per_minute: float | None = None,
    frees_in: float | None = None,
) -> Explanation:
    """Judge one of the candidates as the planner would if its turn were now. NotFound when it is not among them.

    `per_minute`: dispatches a minute of its tenant and platform, for the estimate. `frees_in`: seconds until the
    minute window that refuses has room.
    """
    ordered = sorted(candidates, key=dispatch_order)
    task = next((one for one in ordered if one.task_id == task_id), None)
    if task is None:
        raise NotFound(f"task {task_id} does not wait for a desktop")
    admission = Admission(state, ordered)
    desk, reason = _verdict(admission, task)
    steps = (*_rules(state, task, reason), *(map(_budget, admission.checks(task, desk)) if desk is not None else ()))
    binding = next((step for step in steps if step.name == reason), None)
    return Explanation(
        task_id=task_id,
        reason=MAY_GO if reason is None else reason.value,
        binding=binding,
        client_id=None if desk is None else desk.client_id,
        steps=steps,
        position=position,
        estimate_seconds=_estimate(reason, binding, position, per_minute, frees_in),
        sentence=_sentence(task, reason, binding, position),
    )


def _verdict(admission: Admission, task: Candidate) -> tuple[Desk | None, Reason | None]:
    """What stops the task and on which desktop; the desktop it would go to when nothing does."""
    if (hold := admission.hold(task)) is not None:
        return None, hold
    found = admission.find(task)
    if isinstance(found, Desk):
        return found, None
    desks = [desk for desk in admission.desks(task) if admission.judge(task, desk) is found]
    return (desks[0] if desks else None), found


def _rules(state: RoundState, task: Candidate, reason: Reason | None) -> list[Step]:
    """The rules that were asked of this lane: all up to the one that stopped it."""
    reach = len(REASONS) if reason is None else REACH[reason]
    asked = [hold for hold in Hold if REACH[hold] <= reach and hold not in _NOT_ASKED[task.lane]]
    return [_rule(state, task, hold, passed=hold is not reason) for hold in asked]


def _rule(state: RoundState, task: Candidate, hold: Hold, *, passed: bool) -> Step:
    if hold is Hold.RETRY_AFTER_NORMAL:
        return Step(hold.value, passed, state.normal_waiting.get(task.tenant_id, 0), state.retry_low_water)
    return Step(hold.value, passed)


def _budget(check: Check) -> Step:
    return Step(check.name.value, check.passed, check.used, check.limit)


def _estimate(
    reason: Reason | None, binding: Step | None, position: int | None, per_minute: float | None, frees_in: float | None
) -> float | None:
    """Its turn at the rate of the last minutes, and not before the window that refuses it frees."""
    if isinstance(reason, Hold) or (binding is not None and binding.limit == 0):
        return None
    if reason is None and position == 0:
        return 0.0
    turn = (position + 1) / per_minute * 60 if position is not None and per_minute else None
    if reason not in MINUTES or frees_in is None:
        return turn
    return max(frees_in, turn or 0.0)


def _sentence(task: Candidate, reason: Reason | None, binding: Step | None, position: int | None) -> str:
    """What would let it go, for a person."""
    if reason is None:
        return "Nothing stops it: it goes in its turn, within the next rounds."
    if reason is Hold.NO_CLIENT and task.bound_to is not None:
        reason_text = "The desktop it is bound to is not there; it goes when that one is back, or another takes over."
    else:
        reason_text = _SENTENCES[reason]
    if binding is not None and binding.limit == 0:
        reason_text = _ALLOWS_NONE
    numbers = {} if binding is None else {"used": binding.used, "limit": binding.limit}
    it_goes = f"it goes, after {position:,} others," if position else "it goes"
    return reason_text.format(
        lane=task.lane.value, platform=task.platform, reason=reason.value, it_goes=it_goes, **numbers
    )
