"""Rounds in memory for the tests of the rules: small fleets, small limits that all bind, and an oracle of its own."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from domain.budgets import Limits, limits_of
from domain.client_choice import ClientState
from domain.dispatch_settings import DispatchSettings, Fuses
from domain.lanes import LANE_RULES, MONITOR_LANES, Kind, Lane
from domain.rounds import Candidate, Live, Pick, RoundPlan, RoundState

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
A, B, C, D = (UUID(int=number) for number in (1, 2, 3, 4))
REQUEST, OTHER_REQUEST = UUID(int=100), UUID(int=101)
PLATFORMS = ("openai", "qwen", "doubao")
DEFAULTS = DispatchSettings()
# Scheduled work stops at 16 of 20, its floor is 4; a tenant's is 2 of 6.
SMALL = DispatchSettings(
    cluster_per_minute=20,
    tenant_per_minute=6,
    client_queue_depth=3,
    fuses=Fuses(cluster_per_minute=30, tenant_per_minute=10),
)


def client(client_id: UUID, *, free: int = 2, tenant: int = 1, **more: Any) -> ClientState:
    """A client of workspace 7."""
    return ClientState(client_id, tenant, 7, free_slots=free, **more)


def limits(settings: DispatchSettings = DEFAULTS, **own: int | None) -> Limits:
    """The limits of a client without its own."""
    return limits_of(settings, **{"client_concurrency": None, "client_queue_depth": None, "platform": 0, **own})


def state(
    clients: Sequence[ClientState],
    live: Sequence[Live] = (),
    *,
    settings: DispatchSettings = DEFAULTS,
    **more: Any,
) -> RoundState:
    """A reading: empty windows, three platforms that take one task each."""
    values = {"cluster_minute": 0, "tenant_minute": {}, "platform_limits": dict.fromkeys(PLATFORMS, 1), **more}
    return RoundState(
        clients={one.client_id: one for one in clients},
        limits={one.client_id: limits(settings) for one in clients},
        live=live,
        **values,
    )


def task(task_id: int, lane: Lane = Lane.NORMAL, platform: str = "openai", **more: Any) -> Candidate:
    """A waiting task of tenant 1; a higher id has waited for a shorter time."""
    values = {"tenant_id": 1, "workspace_id": 7, "enqueued_at": NOON + timedelta(seconds=task_id), **more}
    values = {"priority": LANE_RULES[Kind.MONITOR, lane].default, **values}
    return Candidate(task_id, platform=platform, lane=lane, **values)


def high(task_id: int, client_id: UUID = A, platform: str = "openai", **more: Any) -> Candidate:
    """A task of a click, bound to its client."""
    return task(task_id, Lane.HIGH, platform, **{"bound_to": client_id, "request_id": REQUEST, **more})


def picked(plan: RoundPlan) -> dict[int, UUID]:
    """The client that each picked task goes to."""
    return {pick.task.task_id: pick.client_id for pick in plan.picks}


FLEET = (client(A), client(B, free=1), client(C, tenant=2, free=1), client(D, platform_sessions={"qwen": "expired"}))

candidates = st.lists(
    st.builds(
        task,
        st.integers(1, 10_000),
        st.sampled_from(MONITOR_LANES),
        st.sampled_from(PLATFORMS),
        tenant_id=st.sampled_from([1, 1, 2]),
        bound_to=st.sampled_from([None, None, None, A, B]),
        request_id=st.sampled_from([None, REQUEST]),
    ),
    max_size=40,
    unique_by=lambda one: one.task_id,
)
lives = st.lists(
    st.builds(
        Live,
        tenant_id=st.just(1),
        client_id=st.sampled_from([A, B, D]),
        platform=st.sampled_from(PLATFORMS),
        running=st.booleans(),
        lane=st.sampled_from([Lane.HIGH, Lane.NORMAL, Lane.NORMAL, Lane.RETRY]),
        interrupted_for=st.sampled_from([None, None, REQUEST]),
        legacy=st.booleans(),
    ),
    max_size=5,
)


@st.composite
def states(draw: st.DrawFn, live: st.SearchStrategy[list[Live]] = lives) -> RoundState:
    """Readings near every limit, in any combination."""
    scheduled, others = draw(st.sampled_from([0, 3, 4, 12, 15, 16])), draw(st.sampled_from([0, 0, 1, 13, 24, 27]))
    tenant, its_high = draw(st.sampled_from([0, 0, 1, 2, 5, 6])), draw(st.sampled_from([0, 0, 4, 8]))
    return state(
        draw(st.lists(st.sampled_from(FLEET), unique_by=lambda one: one.client_id)),
        draw(live),
        settings=SMALL,
        cluster_minute=scheduled + others,
        scheduled_minute=scheduled,
        tenant_minute={1: tenant + its_high},
        tenant_scheduled_minute={1: tenant},
        platform_limits=draw(st.sampled_from([dict.fromkeys(PLATFORMS, 1), {"openai": 2, "qwen": 1}])),
        normal_floor=draw(st.sampled_from([0.0, 0.2])),
        normal_waiting={1: draw(st.sampled_from([0, 49, 50]))},
        paused_lanes=frozenset(draw(st.sets(st.sampled_from(MONITOR_LANES), max_size=1))),
        paused_tenants=frozenset(draw(st.sets(st.just(2)))),
        platforms_are_global=draw(st.booleans()),
    )


class Oracle:
    """The rules once more, plainly: whether a task could go to a client, counting everything anew each time."""

    def __init__(self, given: RoundState, tasks: Sequence[Candidate], picks: Sequence[Pick]) -> None:
        self.state = given
        self.picks = picks
        self.waiting = [one for one in tasks if all(one is not pick.task for pick in picks)]
        dispatched = [
            Live(pick.task.tenant_id, pick.client_id, pick.task.platform, False, pick.task.lane) for pick in picks
        ]
        self.live = [*given.live, *dispatched]
        self.high = {one.tenant_id for one in tasks if one.lane is Lane.HIGH} | given.high_waiting
        self.with_high = {one.bound_to for one in tasks if one.lane is Lane.HIGH} | given.reserved
        self.with_high |= {one.client_id for one in self.live if one.lane is Lane.HIGH}

    def may_go(self, one: Candidate) -> bool:
        """Whether any client could take it now."""
        return self.open(one) and any(self.may_go_to(one, client_id) for client_id in self.state.clients)

    def open(self, one: Candidate) -> bool:
        """Whether no pause and no rule of its lane keeps it."""
        given = self.state
        paused = one.lane in given.paused_lanes or one.tenant_id in given.paused_tenants
        if paused or one.platform not in given.platform_limits or one.awaits_client:
            return False
        few = given.normal_waiting.get(one.tenant_id, 0) < given.retry_low_water
        return one.lane is not Lane.RETRY or (few and one.tenant_id not in self.high)

    def may_go_to(self, one: Candidate, client_id: UUID) -> bool:
        """Whether the client could take it."""
        able = self.state.clients[client_id]
        if (able.tenant_id, able.workspace_id) != (one.tenant_id, one.workspace_id):
            return False
        if one.bound_to not in (None, client_id) or able.paused or not able.logged_in(one.platform):
            return False
        if one.lane is not Lane.HIGH and client_id in self.with_high:
            return False
        return (
            self._minutes_allow(one) and self._client_allows(one, client_id) and self._platform_allows(one, client_id)
        )

    def _minutes_allow(self, one: Candidate) -> bool:
        given, bounds = self.state, limits(SMALL)
        scheduled = [pick for pick in self.picks if pick.task.lane is not Lane.HIGH]
        total = given.cluster_minute + len(self.picks)
        if one.lane is Lane.HIGH:
            return total < bounds.cluster_fuse
        own = [pick for pick in self.picks if pick.task.tenant_id == one.tenant_id]
        own_total = given.tenant_minute.get(one.tenant_id, 0) + len(own)
        own_scheduled = given.tenant_scheduled_minute.get(one.tenant_id, 0) + sum(pick in scheduled for pick in own)
        below_floor = given.scheduled_minute + len(scheduled) < 20 * given.normal_floor
        cluster = total < 16 or (below_floor and total < bounds.cluster_fuse)
        return cluster and (own_total < 6 or own_scheduled < 6 * given.normal_floor)

    def _client_allows(self, one: Candidate, client_id: UUID) -> bool:
        there = [live for live in self.live if live.client_id == client_id]
        running = sum(live.running and not self._yields(live, one, client_id) for live in there)
        return running < 2 and (one.lane is Lane.HIGH or sum(live.queued for live in there) < 3)

    def _platform_allows(self, one: Candidate, client_id: UUID) -> bool:
        holding = [
            live
            for live in self.live
            if live.platform == one.platform and (self.state.platforms_are_global or live.tenant_id == one.tenant_id)
        ]
        held = sum(not self._yields(live, one, client_id) for live in holding)
        return held < self.state.platform_limits[one.platform]

    def _yields(self, live: Live, one: Candidate, client_id: UUID) -> bool:
        mine = live.interrupted_for is not None and live.interrupted_for == one.request_id
        return mine and live.running and live.client_id == client_id and one.lane is Lane.HIGH


def after(given: RoundState, picks: Sequence[Pick]) -> RoundState:
    """The reading after the picks were dispatched."""
    scheduled = [pick for pick in picks if pick.task.lane is not Lane.HIGH]
    return replace(
        given,
        live=[
            *given.live,
            *(Live(pick.task.tenant_id, pick.client_id, pick.task.platform, False, pick.task.lane) for pick in picks),
        ],
        cluster_minute=given.cluster_minute + len(picks),
        scheduled_minute=given.scheduled_minute + len(scheduled),
        tenant_minute=_plus(given.tenant_minute, picks),
        tenant_scheduled_minute=_plus(given.tenant_scheduled_minute, scheduled),
    )


def _plus(minutes: Mapping[int, int], picks: Sequence[Pick]) -> Mapping[int, int]:
    return Counter(minutes) + Counter(pick.task.tenant_id for pick in picks)
