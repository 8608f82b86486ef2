"""One set of routes for both paths: a task id says whose it is; and the pull of the legacy path (1-dispatch §1.7)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Protocol
from uuid import UUID

from fastapi import APIRouter, Depends, Request

from domain.desktop_calls import (
    CancelAnswer,
    CancelCall,
    InterruptAckCall,
    LeaseAnswer,
    LeaseCall,
    PullAnswer,
    PullCall,
)
from domain.errors import NotFound
from domain.hub_port import ClientIdentity
from domain.legacy import TaskId, parse_task_id
from store import leases, legacy_leases, legacy_pull
from store.database import Pool
from store.leases import LeaseRef
from store.legacy_leases import LegacyLease


class TaskCalls(Protocol):
    """The lease calls about one task by one desktop; the refusals are those of `domain/desktop_calls.py`."""

    async def start(self, call: LeaseCall) -> LeaseAnswer: ...

    async def extend(self, call: LeaseCall) -> LeaseAnswer: ...

    async def cancel(self, call: CancelCall) -> CancelAnswer: ...

    async def acknowledge_interrupt(self, call: InterruptAckCall) -> CancelAnswer: ...


def known_id(task_id: str) -> TaskId:
    """The id; NotFound for what can be no id of ours."""
    found = parse_task_id(task_id)
    if found is None:
        raise NotFound(f"no task {task_id[:100]}")
    return found


def calls_of(pool: Pool, client: ClientIdentity, task_id: str) -> TaskCalls:
    """The calls of the path that the task is on."""
    found = known_id(task_id)
    return _LegacyCalls(pool, client, found) if isinstance(found, int) else _ExecutionCalls(pool, client, found)


@dataclass(frozen=True, slots=True)
class _ExecutionCalls:
    """About an execution task."""

    pool: Pool
    client: ClientIdentity
    task_id: UUID

    async def start(self, call: LeaseCall) -> LeaseAnswer:
        return await leases.start(self.pool, self._lease(call.lease_token), call.phase)

    async def extend(self, call: LeaseCall) -> LeaseAnswer:
        return await leases.extend(self.pool, self._lease(call.lease_token), call.phase)

    async def cancel(self, call: CancelCall) -> CancelAnswer:
        return await leases.cancel(self.pool, self._lease(call.lease_token), call)

    async def acknowledge_interrupt(self, call: InterruptAckCall) -> CancelAnswer:
        return await leases.acknowledge_interrupt(self.pool, self.client, self.task_id, call)

    def _lease(self, token: str) -> LeaseRef:
        return LeaseRef(self.client, self.task_id, token)


@dataclass(frozen=True, slots=True)
class _LegacyCalls:
    """About a legacy business task."""

    pool: Pool
    client: ClientIdentity
    number: int

    async def start(self, call: LeaseCall) -> LeaseAnswer:
        return await legacy_leases.start(self.pool, self._lease(call.lease_token))

    async def extend(self, call: LeaseCall) -> LeaseAnswer:
        return await legacy_leases.extend(self.pool, self._lease(call.lease_token))

    async def cancel(self, call: CancelCall) -> CancelAnswer:
        return await legacy_leases.cancel(self.pool, self._lease(call.lease_token), call)

    async def acknowledge_interrupt(self, call: InterruptAckCall) -> CancelAnswer:
        return await legacy_leases.acknowledge_interrupt(self.pool, self._lease(call.lease_token), call)

    def _lease(self, token: str | None) -> LegacyLease:
        return LegacyLease(self.client, self.number, token)


def add_pull_route(router: APIRouter, device: Callable[..., object], pool_of: Callable[[Request], Pool]) -> None:
    """`POST …/tasks/lease`, before the routes that take any task id."""

    @router.post("/tasks/lease")
    async def lease(request: Request, call: PullCall, client: Annotated[ClientIdentity, Depends(device)]) -> PullAnswer:
        """Lease at most `count` of the legacy tasks on offer to this desktop, the most urgent first."""
        return await legacy_pull.pull(pool_of(request), client, call.count)
