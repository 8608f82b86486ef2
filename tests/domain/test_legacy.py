"""The rules of the legacy path: 1-dispatch §1.7, dispatch §14.2, §16.2."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from domain.legacy import ExecutionOwner, execution_owner, may_yield, parse_task_id, point_before, wire_id
from domain.phases import Phase, SafePoint, safe_point_before


@given(tenant=st.integers(1, 10**12), lower=st.integers(0, 100), higher=st.integers(0, 100))
def test_a_tenant_that_has_moved_stays_moved_while_the_rollout_grows(tenant: int, lower: int, higher: int) -> None:
    lower, higher = sorted((lower, higher))
    if execution_owner(tenant, lower) is ExecutionOwner.DESKTOP_TASKS:
        assert execution_owner(tenant, higher) is ExecutionOwner.DESKTOP_TASKS


def test_the_rollout_moves_its_share_of_the_tenants() -> None:
    for percent in (0, 5, 25, 50, 100):
        moved = [execution_owner(tenant, percent) for tenant in range(1, 1001)].count(ExecutionOwner.DESKTOP_TASKS)
        assert moved == percent * 10


@given(st.one_of(st.uuids(), st.integers(0, 2**63 - 1)))
def test_an_id_survives_the_wire(task_id: UUID | int) -> None:
    assert parse_task_id(wire_id(task_id)) == task_id


@given(st.text(max_size=40))
def test_any_text_is_an_id_or_none(text: str) -> None:
    found = parse_task_id(text)
    assert (
        found is None
        or isinstance(found, UUID)
        or wire_id(found).removeprefix("l-") == text[2:].lstrip("0").rjust(1, "0")
    )


def test_an_id_over_a_bigint_is_none() -> None:
    assert parse_task_id(f"l-{2**63}") is None
    assert parse_task_id("l-" + "9" * 1_000_000) is None


def test_a_legacy_task_yields_only_before_it_has_begun() -> None:
    assert [phase for phase in Phase if may_yield(phase)] == [Phase.PREPARING, Phase.NAVIGATING]
    assert may_yield(None)


def test_a_legacy_task_has_one_more_safe_point_after_navigating() -> None:
    points = {phase: point_before("legacy", phase) for phase in Phase}
    assert points.pop(Phase.AUTHENTICATING) is SafePoint.BEFORE_INPUT
    assert points == {phase: safe_point_before(phase) for phase in points}
    assert point_before("desktop_tasks", Phase.AUTHENTICATING) is None
