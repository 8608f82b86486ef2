"""What the CollectNow workflow knows of its victims, signal by signal (1-dispatch §1.5)."""

from datetime import UTC, datetime, timedelta

from domain.ids import new_uuid
from domain.messages import InterruptsInherited
from workflows.request_state import RequestState

NOW = datetime(2026, 4, 20, 10, tzinfo=UTC)


def test_a_victim_inherited_after_a_hard_timeout_has_a_hard_timeout_of_its_own() -> None:
    state = RequestState()
    signal = InterruptsInherited(client_id=new_uuid(), generation=5, interrupts=1, asked_at=NOW)
    state.inherit(signal, NOW)
    [asked] = state.interrupts.values()
    asked.soft_noted = asked.released = True
    assert not state.awaits_victims
    state.inherit(signal, NOW + timedelta(minutes=1))
    assert (asked.outstanding, asked.released, state.awaits_victims) == (2, False, True)
