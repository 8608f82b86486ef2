"""What minutes and platforms have used, with a round's picks added as they are made: each question is a look-up."""

from collections import Counter

from domain.lanes import Lane
from domain.round_state import EVERYBODY, Candidate, RoundState


class Tally:
    """Counters of one round over the whole of its tenants. With a quota, the cluster's are of permits used."""

    def __init__(self, state: RoundState) -> None:
        self._quota = state.quota
        self._platforms_are_global = state.platforms_are_global
        self.cluster = state.cluster_minute if state.quota is None else 0
        self.scheduled = state.scheduled_minute if state.quota is None else 0
        self.tenants = Counter(state.tenant_minute)
        self.tenants_scheduled = Counter(state.tenant_scheduled_minute)
        self._platforms = Counter(self._platform(live.tenant_id, live.platform) for live in state.live)

    def _platform(self, tenant_id: int, platform: str) -> tuple[int, str]:
        return (EVERYBODY if self._platforms_are_global else tenant_id, platform)

    def cluster_minute(self, lane: Lane) -> int:
        """The window, which all share; or the permits used, which high and scheduled work have each their own of."""
        if self._quota is None:
            return self.cluster
        return self.cluster - self.scheduled if lane is Lane.HIGH else self.scheduled

    def on_platform(self, task: Candidate) -> int:
        """How many tasks hold the task's platform."""
        return self._platforms[self._platform(task.tenant_id, task.platform)]

    def add(self, task: Candidate) -> None:
        """Count a pick."""
        self.cluster += 1
        self.tenants[task.tenant_id] += 1
        if task.lane is not Lane.HIGH:
            self.scheduled += 1
            self.tenants_scheduled[task.tenant_id] += 1
        self._platforms[self._platform(task.tenant_id, task.platform)] += 1
