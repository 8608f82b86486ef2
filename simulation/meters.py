"""What the run measures. Seconds throughout."""

from array import array
from collections import Counter, defaultdict

from domain.budgets import Refusal
from domain.lanes import MONITOR_LANES, Lane
from simulation.state import Attempt, Task


class Meters:
    """Samples and counts, filled as things happen."""

    def __init__(self) -> None:
        # From being enqueued (high: from the click) to the frame of the first dispatch, by the lane at that moment. A
        # retry is no first dispatch: from the failure before it.
        self.first_dispatch: dict[Lane, array[float]] = {lane: array("d") for lane in MONITOR_LANES}
        # Waits of scheduled work, of what was never dispatched too.
        self.normal_waits = array("d")
        self.tenant_waits: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.click_dispatched = array("d")
        self.click_started = array("d")
        self.click_finished = array("d")
        self.clicks: Counter[str] = Counter()
        self.preempted: Counter[str] = Counter()
        self.wasted = 0.0
        self.settle = array("d")
        self.refusals: Counter[Refusal] = Counter()
        # Dispatches by minute of the run.
        self.minutes: Counter[int] = Counter()
        self.promoted = 0
        self.retried: Counter[str] = Counter()
        self.moved = 0
        self.rounds = 0
        self.rule_seconds = 0.0

    def dispatch(self, attempt: Attempt, at: float) -> None:
        """A task is at its desktop; how long it had waited counts the first time. High work waits since its click."""
        task = attempt.task
        self.minutes[int(at // 60)] += 1
        if attempt.lane is Lane.RETRY:
            self.first_dispatch[Lane.RETRY].append(at - task.waits_since)
        if task.dispatched:
            return
        task.dispatched = True
        request = attempt.request
        waited = at - (task.enqueued if request is None else request.clicked)
        self.first_dispatch[attempt.lane].append(waited)
        if request is None:
            self.wait(task, waited)

    def wait(self, task: Task, seconds: float) -> None:
        """A scheduled task was dispatched for the first time, or expired without."""
        self.normal_waits.append(seconds)
        sums = self.tenant_waits[task.tenant.id]
        sums[0] += seconds
        sums[1] += 1
