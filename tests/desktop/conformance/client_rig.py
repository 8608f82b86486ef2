"""The reference desktop on the scripted hub, quick enough for a test, and clients that break one rule."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from desktop.backoff import Backoff
from desktop.client import DesktopClient
from desktop.config import DesktopConfig, Timings
from desktop.conformance.client_suite import check_client
from desktop.conformance.orders import TaskMaker
from desktop.conformance.pace import ClientPace
from desktop.conformance.play import Play
from desktop.conformance.stage import Address, Stage
from desktop.conformance.stage_server import serving
from desktop.conformance.verdict import Verdict
from desktop.recorded import load_answers, samples_folder
from desktop.replay import ReplayDriver
from desktop.rest import RestPolicy, Tries

QUICK = Timings(
    heartbeat=0.1,
    no_slot=0.05,
    stale_grace=5.0,
    reconnect=Backoff(0.2, 0.4),
    crowded=Backoff(0.1, 0.2),
    resend=Backoff(0.02, 0.1),
)
POLICY = RestPolicy(Tries(3, 5.0, 0.01, 0.02), Tries(4, 5.0, 0.01, 0.02), Tries(1, 5.0))
PACE = ClientPace(patience=20.0, arrival=20.0, heartbeat=2.0, watch=1.0, optional=1.0, retry_after=1)
# A question takes about a tenth of a second.
SPEED = 80.0

MakeClient = Callable[[DesktopConfig], DesktopClient]


def reference(config: DesktopConfig) -> DesktopClient:
    """The client as it is; its waits are the same in every run."""
    return DesktopClient(config, policy=POLICY, rng=Random(7))


@dataclass
class InProcess:
    """Starts clients in this process."""

    state_dir: Path
    make: MakeClient = reference
    slots: int = 2
    timings: Timings = QUICK
    # Seconds at speed 1 after which a phase pauses.
    step: float = math.inf
    running: list[asyncio.Task[None]] = field(default_factory=list)

    async def bring(self, address: Address) -> None:
        await self.finish()
        config = DesktopConfig(
            client_id=address.client_id,
            token=address.device_token,
            ws_url=address.ws_url,
            api_url=address.api_url,
            state_dir=self.state_dir,
            driver=ReplayDriver(load_answers(samples_folder()), speed=SPEED, step=self.step),
            max_concurrent=self.slots,
            timings=self.timings,
        )
        self.running.append(asyncio.create_task(self.make(config).run()))

    async def finish(self) -> None:
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)
        self.running.clear()


async def verdicts_of(bringer: InProcess, *only: str, pace: ClientPace = PACE) -> list[Verdict]:
    """Run scenarios against a client."""
    recorded = load_answers(samples_folder()).answers[0]
    make = TaskMaker("0198-conformance", recorded.platform, recorded.question)
    stage = Stage(make, "device-token-of-the-suite", pace)
    async with serving(stage):
        return [verdict async for verdict in check_client(Play(stage, bringer), only)]
