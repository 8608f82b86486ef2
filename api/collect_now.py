"""The click's way into Temporal: update-with-start of CollectNow, within 5 s or 503 (1-dispatch §1.5)."""

import asyncio
import logging
from typing import Any, Final, Protocol

from temporalio.client import Client, WithStartWorkflowOperation
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import TemporalError

from domain.errors import DispatchUnavailable, GivewayError
from domain.messages import PROCESS_QUEUE, AcceptCommand, AcceptResult, CollectNowStart, collect_now_workflow_id

log = logging.getLogger(__name__)

ACCEPT_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 2
# Everything by which the client says that Temporal or its workers did not do it. A lazy connect fails bare.
TEMPORAL_ERRORS: Final = (TemporalError, TimeoutError, RuntimeError, OSError)


class Accept(Protocol):
    """Runs the accept transaction somewhere and returns its result."""

    async def accept(self, command: AcceptCommand) -> AcceptResult:
        """Raises DispatchUnavailable when nobody answered by the deadline; the same call is safe to repeat."""
        ...


class CollectNowGateway:
    """`Accept` through Temporal: the workflow starts and answers in one round trip."""

    def __init__(self, client: Client, *, task_queue: str = PROCESS_QUEUE, seconds: float = ACCEPT_SECONDS) -> None:
        self._client = client
        self._task_queue = task_queue
        self._seconds = seconds

    async def accept(self, command: AcceptCommand) -> AcceptResult:
        """Raises DispatchUnavailable after `seconds`, and whatever else Temporal answers with."""
        operation = self._start_of(command)
        try:
            async with asyncio.timeout(self._seconds):
                result: AcceptResult = await self._client.execute_update_with_start_workflow(
                    "accept", command, start_workflow_operation=operation, result_type=AcceptResult
                )
                return result
        except TEMPORAL_ERRORS as error:
            log.warning("collect-now %s was not accepted: %r", command.request_id, error)
            await _retrieve(operation)
            raise DispatchUnavailable(
                "the dispatcher did not answer in time; send the same call again", retry_after=RETRY_SECONDS
            ) from error

    def _start_of(self, command: AcceptCommand) -> WithStartWorkflowOperation[Any, Any]:
        start = CollectNowStart(request_id=command.request_id, tenant_id=command.tenant_id, brand_id=command.brand_id)
        return WithStartWorkflowOperation(
            "CollectNow",
            start,
            id=collect_now_workflow_id(command.request_id),
            task_queue=self._task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )


async def _retrieve(operation: WithStartWorkflowOperation[Any, Any]) -> None:
    """Take the failure out of the operation's future, or it is logged again when the future is collected.

    Through a task: the SDK may have put a CancelledError there, which is not a cancellation of ours.
    """
    handle = asyncio.ensure_future(operation.workflow_handle())
    await asyncio.wait([handle], timeout=0.1)
    if not handle.cancel() and not handle.cancelled():
        handle.exception()


def refusal_of(result: AcceptResult) -> GivewayError:
    """The error leaf that a REFUSED result names; DispatchUnavailable for a code of a newer worker."""
    leaf = _leaves(GivewayError).get(result.error_code or "", DispatchUnavailable)
    return leaf(result.error_message or "refused", retry_after=result.retry_after)


def _leaves(root: type[GivewayError]) -> dict[str, type[GivewayError]]:
    found = {root.code: root}
    for leaf in root.__subclasses__():
        found.update(_leaves(leaf))
    return found
