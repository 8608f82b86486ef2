"""Blocks of the cluster's minute when several coordinators share it: the table `dispatch_quota` in virtual time."""

from typing import Final

from domain.budgets import with_floors
from domain.lanes import Lane
from domain.quota import Quota, ask, grant
from simulation.context import Context
from simulation.window import Window

# As store/quota and activities/coordinator have them.
BLOCK_SECONDS: Final = 3.0
ASK_AGAIN_SECONDS: Final = 0.5


class Permits:
    """What each coordinator holds; a block that nobody used expires."""

    def __init__(self, context: Context, minute: Window) -> None:
        self._context = context
        self._minute = minute
        self._shards = context.settings.coordinator_shards
        self._limits = with_floors(context.limits(), context.settings.normal_floor)
        self._blocks = [(Quota(), 0.0)] * self._shards

    def held(self, shard: int) -> Quota:
        """Permits that the coordinator may use now."""
        block, until = self._blocks[shard]
        return block if self._context.clock.now < until else Quota()

    def take(self, shard: int, lacking: Quota) -> Quota:
        """A block for what is lacking, as much as window and ceilings allow; it replaces what is left of the last."""
        now = self._context.clock.now
        total, scheduled = self._minute.total(now), self._minute.scheduled(now)
        others = [self.held(other) for other in range(self._shards) if other != shard]
        granted = grant(
            Quota(scheduled, total - scheduled),
            Quota(sum(block.scheduled for block in others), sum(block.high for block in others)),
            self._limits,
            ask(lacking, self._limits, self._shards),
        )
        self._blocks[shard] = (granted, now + BLOCK_SECONDS)
        return granted

    def spend(self, shard: int, lane: Lane) -> None:
        """A pick uses a permit of its kind."""
        block, until = self._blocks[shard]
        high = lane is Lane.HIGH
        self._blocks[shard] = (Quota(block.scheduled - (not high), block.high - high), until)
