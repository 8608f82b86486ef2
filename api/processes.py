"""What the API asks of running workflows besides the accept: cancel, scan now, are you there."""

from datetime import timedelta
from typing import Final, Protocol

from temporalio.client import Client
from temporalio.service import RPCError

from api.collect_now import RETRY_SECONDS, TEMPORAL_ERRORS
from domain.errors import DispatchUnavailable
from domain.messages import SCAN_SCHEDULE_ID

RPC_TIMEOUT: Final = timedelta(seconds=5)
HEALTH_TIMEOUT: Final = timedelta(seconds=2)


class Processes(Protocol):
    """Orders to workflows. Each raises DispatchUnavailable when Temporal does not answer or knows no such run."""

    async def cancel(self, workflow_id: str) -> None:
        """Ask the workflow to withdraw; asking twice is harmless."""
        ...

    async def scan_plans(self) -> None:
        """Start a scan of due plans now instead of at the next minute."""
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

    async def scan_plans(self) -> None:
        """Raises DispatchUnavailable; the next regular scan does the same work."""
        try:
            await self._client.get_schedule_handle(SCAN_SCHEDULE_ID).trigger(rpc_timeout=RPC_TIMEOUT)
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


def _unavailable(error: BaseException) -> DispatchUnavailable:
    reason = error.status.name if isinstance(error, RPCError) else type(error).__name__
    return DispatchUnavailable(f"Temporal did not take the order ({reason}); try again", retry_after=RETRY_SECONDS)
