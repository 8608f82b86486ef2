"""Execution phases and safe points of a desktop task (2-desktop §2.3)."""

from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    """Where a desktop is with one question, in order."""

    PREPARING = "PREPARING"
    NAVIGATING = "NAVIGATING"
    AUTHENTICATING = "AUTHENTICATING"
    INPUTTING = "INPUTTING"
    SUBMITTING = "SUBMITTING"
    WAITING = "WAITING"
    PARSING = "PARSING"
    POSTING = "POSTING"


PHASE_ORDER: Final = {phase: index for index, phase in enumerate(Phase)}


class SafePoint(StrEnum):
    """The moments between phases at which a desktop may stop."""

    BEFORE_OPEN = "before_open"
    BEFORE_INPUT = "before_input"
    BEFORE_SUBMIT = "before_submit"
    BEFORE_PARSE = "before_parse"
    AFTER_QUESTION = "after_question"


# Entering the phase passes the safe point. Login, human checks and the time between submitting and the
# answer have none: stopping there leaves the browser in an unknown state.
SAFE_POINT_BEFORE: Final[dict[Phase, SafePoint]] = {
    Phase.NAVIGATING: SafePoint.BEFORE_OPEN,
    Phase.INPUTTING: SafePoint.BEFORE_INPUT,
    Phase.SUBMITTING: SafePoint.BEFORE_SUBMIT,
    Phase.PARSING: SafePoint.BEFORE_PARSE,
}

# A driver that does these phases in steps may stop between two of them: nothing is sent yet, so it is the safe point
# that the phase leads to, come early.
PAUSE_POINT_IN: Final[dict[Phase, SafePoint]] = {
    Phase.PREPARING: SafePoint.BEFORE_OPEN,
    Phase.NAVIGATING: SafePoint.BEFORE_INPUT,
    Phase.INPUTTING: SafePoint.BEFORE_SUBMIT,
}


def safe_point_before(phase: Phase) -> SafePoint | None:
    """The safe point passed when the phase begins, or None where stopping is not allowed."""
    return SAFE_POINT_BEFORE.get(phase)


def pause_point_in(phase: Phase) -> SafePoint | None:
    """The safe point between two steps of the phase, or None where stopping is not allowed."""
    return PAUSE_POINT_IN.get(phase)
