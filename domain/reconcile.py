"""What reconcile does about an open request or batch whose workflow does not run (1-dispatch §1.8)."""

from enum import StrEnum
from typing import assert_never


class Process(StrEnum):
    """What Temporal says of the workflow of an open row."""

    RUNNING = "running"
    # Never started, or its history is gone.
    MISSING = "missing"
    CANCELLED = "cancelled"
    # Completed, failed, terminated or timed out, although the row is open.
    OVER = "over"


class Remedy(StrEnum):
    """What the open row needs."""

    NOTHING = "nothing"
    # A workflow that takes the row up as it is.
    START = "start"
    # The end that its cancel began: nobody follows a cancelled one any more.
    FINISH = "finish"


def remedy(process: Process, *, cancelled: bool) -> Remedy:
    """The remedy for an open row; `cancelled`: the row itself says that somebody cancelled it."""
    match process:
        case Process.RUNNING:
            return Remedy.NOTHING
        case Process.CANCELLED:
            return Remedy.FINISH
        case Process.MISSING | Process.OVER:
            return Remedy.FINISH if cancelled else Remedy.START
    assert_never(process)
