"""What the run does for a client that is lost on the way."""

from dataclasses import dataclass, replace
from pathlib import Path

from desktop.conformance.stage import Address
from desktop.conformance.verdict import Outcome
from tests.desktop.conformance.client_rig import PACE, InProcess, verdicts_of


@dataclass
class Dying(InProcess):
    """The client dies before it has connected; started again it works."""

    brought: int = 0

    async def bring(self, address: Address) -> None:
        self.brought += 1
        if self.brought > 1:
            await super().bring(address)


async def test_a_client_that_died_is_started_again_for_the_next_scenario(tmp_path: Path) -> None:
    client = Dying(tmp_path)
    first, second = await verdicts_of(client, "task.result", "order.unheld", pace=replace(PACE, arrival=3.0))
    assert (first.outcome, second.outcome) == (Outcome.SKIPPED, Outcome.PASSED)
    assert first.why == "no client has connected and said hello within 3 s"
    assert client.brought == 2
