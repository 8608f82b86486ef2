"""The legacy path's side of the work, through the real store: offers as rounds make them, pulls, calls and results."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from domain.desktop_calls import CancelAnswer, CancelCall, InterruptAckCall, LeaseAnswer, PulledTask, ResultCall
from domain.hub_port import ClientIdentity
from domain.lanes import Lane
from domain.legacy import parse_task_id
from domain.rounds import Candidate, Pick
from store import legacy_leases, results
from store.database import transaction
from store.legacy_leases import LegacyLease
from store.legacy_offers import offer
from store.legacy_pull import pull
from tests.support.clicks import finish, task_of_today
from tests.support.world import Desktop, World


async def legacy_task(world: World, **more: Any) -> int:
    """A legacy business task of today."""
    return await task_of_today(world, owner="legacy", **more)


async def pick_of(world: World, task_id: int, client_id: UUID) -> Pick:
    """The task as a round read it just now, picked for the client."""
    row = await world.business(task_id)
    candidate = Candidate(
        task_id=task_id,
        tenant_id=row["tenant_id"],
        workspace_id=row["workspace_id"],
        platform=row["ai_platform_id"],
        lane=Lane(row["dispatch_lane"]),
        priority=row["dispatch_priority"],
        enqueued_at=row["enqueued_at"],
        bound_to=row["target_client_id"],
        request_id=row["collect_request_id"],
        legacy=True,
    )
    return Pick(candidate, client_id)


async def offered(world: World, client: Desktop, *task_ids: int) -> int:
    """Offer the tasks to the client; returns how many were."""
    picks = [await pick_of(world, task_id, client.id) for task_id in task_ids]
    async with transaction(world.pool) as connection:
        return await offer(connection, picks)


@dataclass(slots=True)
class LegacyHands:
    """One desktop that pulls."""

    world: World
    desktop: Desktop

    @property
    def identity(self) -> ClientIdentity:
        return ClientIdentity(self.desktop.id, self.world.tenant_id)

    async def pull(self, count: int = 10) -> list[PulledTask]:
        """Lease what stands on offer here."""
        return (await pull(self.world.pool, self.identity, count)).tasks

    async def pull_one(self, **task: Any) -> PulledTask:
        """A new task, offered and leased."""
        number = await legacy_task(self.world, **task)
        assert await offered(self.world, self.desktop, number) == 1
        [pulled] = await self.pull()
        return pulled

    def lease(self, task: PulledTask, *, token: str | None = "") -> LegacyLease:
        """The task's lease; with another token, or none."""
        return LegacyLease(self.identity, number_of(task), task.lease_token if token == "" else token)

    async def start(self, task: PulledTask) -> LeaseAnswer:
        return await legacy_leases.start(self.world.pool, self.lease(task))

    async def cancel(self, task: PulledTask, *, generation: int = 0) -> CancelAnswer:
        call = CancelCall(lease_token=task.lease_token, reason="busy", interrupt_generation=generation)
        return await legacy_leases.cancel(self.world.pool, self.lease(task), call)

    async def acknowledge(self, task: PulledTask, generation: int, *, held: bool = True) -> CancelAnswer:
        token = task.lease_token if held else None
        call = InterruptAckCall(lease_token=token, interrupt_generation=generation)
        return await legacy_leases.acknowledge_interrupt(self.world.pool, self.lease(task, token=token), call)

    async def result(self, task: PulledTask, *, succeeded: bool = True) -> results.ResultTarget:
        """The result call, up to where the broker has it: received, not ingested."""
        call = ResultCall(
            lease_token=task.lease_token,
            attempt_id=UUID(task.attempt_id),
            outcome="succeeded" if succeeded else "failed",
        )
        target = await results.find_attempt_for_result(self.world.pool, self.identity, number_of(task), call)
        await results.mark_result_received(self.world.pool, target, {})
        return target

    async def run(self, task: PulledTask, *, succeeded: bool = True) -> None:
        """Start, finish, and have it ingested."""
        await self.start(task)
        await self.result(task, succeeded=succeeded)
        await finish(self.world, task.attempt_id, succeeded=succeeded)


def number_of(task: PulledTask) -> int:
    """The business task behind a pulled one."""
    number = parse_task_id(task.task_id)
    assert isinstance(number, int)
    return number


def numbers(tasks: Sequence[PulledTask]) -> list[int]:
    """In the order they were given."""
    return [number_of(task) for task in tasks]
