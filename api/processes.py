"""What the API asks of running workflows besides the accept: cancel, pause, scan now, are you there."""

import logging
from datetime import timedelta
from typing import Final, Protocol

from temporalio.client import (
    Client,
    ScheduleOverlapPolicy,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
    WorkflowUpdateStage,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from api.collect_now import RETRY_SECONDS, TEMPORAL_ERRORS
from domain.errors import BatchOver, DispatchUnavailable, GivewayError
from domain.messages import SCAN_SCHEDULE_ID, BatchOrder, BatchUpdate

log = logging.getLogger(__name__)

RPC_TIMEOUT: Final = timedelta(seconds=5)
HEALTH_TIMEOUT: Final = timedelta(seconds=2)


class Processes(Protocol):
    """Orders to workflows. Each raises DispatchUnavailable when Temporal does not answer or knows no such run."""

    async def cancel(self, workflow_id: str) -> None:
        """Ask the workflow to withdraw; asking twice is harmless."""
        ...

    async def order_batch(self, workflow_id: str, update: BatchUpdate, order: BatchOrder) -> None:
        """Give a batch an order; giving it twice is harmless. Raises BatchOver for one that takes none any more."""
        ...

    async def scan_plans(self) -> None:
        """Start a scan of due plans now instead of at the next minute; while one is under way, right after it."""
        ...

    async def trigger(self, schedule_id: str) -> None:
        """Have a schedule run now; while a run of it is under way nothing more is started."""
        ...

    async def check(self) -> None:
        """Raises unless Temporal serves."""
        ...


class TemporalProcesses:
    """`Processes` through a Temporal client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def cancel(self, workflow_id: str) -> None:
        """Raises DispatchUnavailable; a run that is missing here is started again by reconcile."""
        try:
            await self._client.get_workflow_handle(workflow_id).cancel(rpc_timeout=RPC_TIMEOUT)
        except TEMPORAL_ERRORS as error:
            raise _unavailable(error) from error

    async def order_batch(self, workflow_id: str, update: BatchUpdate, order: BatchOrder) -> None:
        """Raises DispatchUnavailable when no worker takes it in time; once taken it is carried out, however long."""
        workflow = self._client.get_workflow_handle(workflow_id)
        try:
            taken = await workflow.start_update(
                update, order, wait_for_stage=WorkflowUpdateStage.ACCEPTED, rpc_timeout=RPC_TIMEOUT
            )
        except TEMPORAL_ERRORS as error:
            raise _unavailable(error) from error
        try:
            await taken.result(rpc_timeout=RPC_TIMEOUT)
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            log.info("batch order %s to %s is under way", update, workflow_id)
        except WorkflowUpdateFailedError as error:
            raise _refusal(error) from error
        except TEMPORAL_ERRORS as error:
            raise _unavailable(error) from error

    async def scan_plans(self) -> None:
        """Raises DispatchUnavailable; the next regular scan does the same work."""
        # One that is under way may have looked before the plan was due.
        await self._trigger(SCAN_SCHEDULE_ID, ScheduleOverlapPolicy.BUFFER_ONE)

    async def trigger(self, schedule_id: str) -> None:
        """Raises DispatchUnavailable; so does a schedule that no worker has made yet."""
        await self._trigger(schedule_id, ScheduleOverlapPolicy.SKIP)

    async def _trigger(self, schedule_id: str, overlap: ScheduleOverlapPolicy) -> None:
        try:
            await self._client.get_schedule_handle(schedule_id).trigger(overlap=overlap, rpc_timeout=RPC_TIMEOUT)
        except TEMPORAL_ERRORS as error:
            raise _unavailable(error) from error

    async def check(self) -> None:
        """Raises DispatchUnavailable within 2 s."""
        try:
            serves = await self._client.service_client.check_health(timeout=HEALTH_TIMEOUT)
        except TEMPORAL_ERRORS as error:
            raise _unavailable(error) from error
        if not serves:
            raise DispatchUnavailable("Temporal answers, but does not serve")


def _refusal(error: WorkflowUpdateFailedError) -> GivewayError:
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type == BatchOver.code:
        return BatchOver(cause.message)
    return DispatchUnavailable(f"the batch did not carry out the order ({cause}); try again", retry_after=RETRY_SECONDS)


def _unavailable(error: BaseException) -> DispatchUnavailable:
    reason = error.status.name if isinstance(error, RPCError) else type(error).__name__
    return DispatchUnavailable(f"Temporal did not take the order ({reason}); try again", retry_after=RETRY_SECONDS)
