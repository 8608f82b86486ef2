"""One connection's grant, as most tests want it."""

import asyncio
from collections.abc import Sequence

from domain.hub_port import ClientIdentity, GrantRequest, HubBackend
from domain.legacy import TaskId
from domain.protocol import TaskAvailable


async def grant(hub: HubBackend, client: ClientIdentity, epoch: int, task_ids: Sequence[TaskId]) -> list[TaskAvailable]:
    """The frames for these tasks; what is held by somebody else is asked for again, as a hub does."""
    frames: list[TaskAvailable] = []
    wanted = tuple(task_ids)
    async with asyncio.timeout(20):
        while True:
            [answer] = await hub.grant([GrantRequest(client, epoch, wanted)])
            frames += answer.frames
            if not (wanted := answer.busy):
                return frames
            await asyncio.sleep(0)
