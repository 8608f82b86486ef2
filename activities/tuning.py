"""The effect of the TuneTimeouts workflow."""

from temporalio import activity

from domain.messages import TuneOrder, TuneResult
from store import tuning
from store.database import Pool


class TuningActivities:
    """Idempotent: what is tuned already stays."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @activity.defn
    async def tune_timeouts(self, order: TuneOrder) -> TuneResult:
        """Interrupt timeouts from the last week's safe-point intervals."""
        return await tuning.tune_timeouts(self._pool, dry_run=order.dry_run)
