"""What a simulated round leaves out of its reading changes no pick."""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.lanes import MONITOR_LANES, Lane
from domain.rounds import Candidate, plan_round
from simulation.day import Day
from simulation.load import PLATFORMS
from simulation.state import State, Tenant
from tests.simulation.days import quiet


def in_some_state(seed: int, clients: int, platform_limit: int) -> tuple[Day, Tenant]:
    """A tenant with waiting work of every lane, and desktops that hold this and that."""
    random = Random(seed)
    day = quiet(clients=1, platform_concurrency=platform_limit, client_queue_depth=3)
    [tenant] = day.context.tenants
    for _ in range(clients - 1):
        day.add_client(tenant, {one.name: "blocked" for one in PLATFORMS if random.random() < 0.3})
    for question in range(6):
        for platform in PLATFORMS:
            task = day.task(tenant, question, platform)
            task.lane = random.choice([*MONITOR_LANES, Lane.NORMAL])
            task.bound = random.choice(tenant.clients) if task.lane is Lane.HIGH else None
            day.effects.ask(task)
    for task in random.sample(list(tenant.tasks.values()), random.randint(0, 8)):
        attempt = day.effects.hold(task, random.choice(tenant.clients))
        attempt.state = random.choice([State.QUEUED, State.RUNNING, State.UNKNOWN])
        day.effects.show(attempt)
    return day, tenant


def everything(day: Day, tenant: Tenant) -> list[Candidate]:
    every_platform = [platform.name for platform in PLATFORMS]
    return [day.reader._candidate(task) for task in tenant.waiting.heads(MONITOR_LANES, 99, 99, every_platform)]


@given(seed=st.integers(0, 10**6), clients=st.integers(1, 12), platform_limit=st.integers(1, 2))
@settings(max_examples=60, deadline=None)
def test_shortlist_and_open_platforms_give_the_picks_of_all_clients_and_all_heads(
    seed: int, clients: int, platform_limit: int
) -> None:
    day, tenant = in_some_state(seed, clients, platform_limit)
    read = day.reader.state([tenant], None)
    limits = dict.fromkeys(tenant.states, day.context.limits())
    whole = replace(read, clients=dict(tenant.states), limits=limits)
    assert len(read.clients) <= len(whole.clients)
    for limit in (None, 1):
        read = day.reader.state([tenant], None, limit)
        short = plan_round(read, day.reader.candidates([tenant], MONITOR_LANES), limit=limit).picks
        long = plan_round(whole, everything(day, tenant), limit=limit).picks
        assert [(pick.task.task_id, pick.client_id) for pick in short] == [
            (pick.task.task_id, pick.client_id) for pick in long
        ]
