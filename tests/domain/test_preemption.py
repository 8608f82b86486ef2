"""Who gives way, which desktop a request gets, and what a generation may do."""

from datetime import UTC, date, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from domain.client_choice import ClientState, choose_for_request
from domain.dispatch_settings import PreemptPolicy
from domain.generations import Order, compare, follows, past
from domain.phases import Phase
from domain.preemption import Running, choose_victims
from domain.progress import crosses_step
from domain.scope import canonical_scope, scope_hash

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def running(number: int, phase: Phase, started: int = 0, preemptions: int = 0, platform: str | None = None) -> Running:
    return Running(UUID(int=number), phase, NOON + timedelta(seconds=started), preemptions, platform)


def chosen(tasks: list[Running], **more: object) -> list[int]:
    values = {"policy": PreemptPolicy.NEEDED, "needed": 1, "max_preemptions": 3, **more}
    return [task.task_id.int for task in choose_victims(tasks, **values)]


def test_the_earliest_phase_gives_way_first_then_the_newest_started() -> None:
    tasks = [running(1, Phase.WAITING), running(2, Phase.NAVIGATING, 1), running(3, Phase.NAVIGATING, 5)]
    assert chosen(tasks, needed=3) == [3, 2, 1]
    assert chosen(tasks, needed=1) == [3]


def test_policy_all_takes_everybody_and_needed_no_more_than_the_slots_lacking() -> None:
    tasks = [running(number, Phase.WAITING) for number in (1, 2)]
    assert len(chosen(tasks, policy=PreemptPolicy.ALL, needed=0)) == 2
    assert chosen(tasks, needed=0) == []
    assert chosen(tasks, needed=-3) == []


def test_a_task_preempted_often_enough_is_spared_while_another_victim_exists() -> None:
    tired, fresh = running(1, Phase.PREPARING, preemptions=3), running(2, Phase.POSTING)
    assert chosen([tired, fresh], policy=PreemptPolicy.ALL) == [2]
    assert chosen([tired], policy=PreemptPolicy.ALL) == [1]


def test_a_spared_task_gives_way_when_the_others_do_not_make_room_enough() -> None:
    tired, fresh = running(1, Phase.PREPARING, preemptions=3), running(2, Phase.POSTING)
    assert chosen([tired, fresh], needed=2) == [2, 1]
    assert chosen([tired, fresh], policy=PreemptPolicy.ALL, needed=2) == [2, 1]
    assert chosen([tired, fresh], needed=1) == [2]


def test_where_all_were_preempted_often_enough_policy_all_takes_those_needed_and_one_at_least() -> None:
    tired = [running(number, Phase.WAITING, number, preemptions=3) for number in (1, 2, 3)]
    assert [chosen(tired, policy=PreemptPolicy.ALL, needed=needed) for needed in (-1, 0, 1, 2)] == [
        [3],
        [3],
        [3],
        [3, 2],
    ]


def test_who_holds_a_platform_that_is_lacked_gives_way_before_others_one_on_each() -> None:
    tasks = [
        running(1, Phase.NAVIGATING),
        running(2, Phase.WAITING, platform="qwen"),
        running(3, Phase.NAVIGATING, platform="qwen"),
        running(4, Phase.WAITING, platform="kimi"),
    ]
    assert chosen(tasks, platforms={"qwen"}) == [3]
    assert chosen(tasks, needed=0, platforms={"qwen", "kimi"}) == [3, 4]
    assert chosen(tasks, needed=2, platforms={"qwen"}) == [3, 1]
    assert chosen(tasks, needed=0) == []


def test_a_spared_task_gives_way_when_it_alone_holds_the_platform() -> None:
    tasks = [running(1, Phase.WAITING), running(2, Phase.WAITING, preemptions=3, platform="qwen")]
    for policy, expected in ((PreemptPolicy.ALL, [1, 2]), (PreemptPolicy.NEEDED, [2])):
        assert chosen(tasks, policy=policy, platforms={"qwen"}) == expected
        assert chosen(tasks, policy=policy) == [1]


def desk(number: int, free: int, rate: float = 0.0, **more: object) -> ClientState:
    return ClientState(UUID(int=number), 1, 1, free, abort_rate=rate, **more)


def test_the_client_with_most_room_then_the_fewest_aborts_is_chosen() -> None:
    assert choose_for_request([desk(1, 0), desk(2, 2, 0.5), desk(3, 2, 0.1)], ["openai"], {}).client_id.int == 3
    assert choose_for_request([desk(1, 2, paused=True)], ["openai"], {}) is None
    assert choose_for_request([desk(1, 2, platform_sessions={"openai": "login_required"})], ["openai"], {}) is None


def test_the_client_that_holds_the_platform_is_chosen_because_its_task_is_preemptible() -> None:
    fleet = [desk(1, 2), desk(2, 1)]
    assert choose_for_request(fleet, ["openai"], {"openai": {UUID(int=2)}}).client_id.int == 2


@given(st.integers(0, 100), st.integers(0, 100))
def test_an_order_is_followed_unless_it_is_older_than_the_one_seen(generation: int, seen: int) -> None:
    assert follows(generation, seen) == (generation >= seen)
    assert (compare(generation, seen) is Order.STALE) == (generation < seen)
    assert past(generation, seen) >= max(generation, seen)


@given(st.lists(st.integers(1, 50)), st.randoms())
def test_the_scope_hash_ignores_order_and_repeats(ids: list[int], random: object) -> None:
    fixed = {"run_modes": ["api_standard"], "business_date": date(2026, 11, 30), "preempt": True}
    shuffled = [*ids, *ids[:3]]
    random.shuffle(shuffled)
    one = scope_hash(canonical_scope(question_ids=ids), target_client_id=None, **fixed)
    assert one == scope_hash(canonical_scope(question_ids=shuffled), target_client_id=None, **fixed)
    assert one != scope_hash(canonical_scope(question_ids=[*ids, 51]), target_client_id=None, **fixed)
    assert one != scope_hash(canonical_scope(question_ids=ids), target_client_id=UUID(int=1), **fixed)


@given(st.integers(1, 2000), st.integers(1, 20), st.data())
def test_progress_signals_at_most_its_steps_and_always_at_the_end(total: int, steps: int, data: st.DataObject) -> None:
    marks = sorted(data.draw(st.sets(st.integers(1, total), max_size=50)) | {total})
    signals = [
        now for before, now in zip([0, *marks], marks, strict=False) if crosses_step(before, now, total, steps=steps)
    ]
    assert signals[-1] == total
    assert len(signals) <= steps + 1
