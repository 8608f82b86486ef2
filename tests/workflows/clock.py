"""The clocks of single workflows on the server with virtual time."""

from datetime import datetime
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.testing import WorkflowEnvironment


class Clock:
    """Each workflow has a time of its own, which moves as fast as the real one until it is moved forward."""

    def __init__(self, environment: WorkflowEnvironment) -> None:
        self._environment = environment
        self.client: Client = environment.client

    async def forward(self, handle: WorkflowHandle[Any, Any], seconds: float) -> None:
        """Live through these seconds: every timer in between rings, and what it causes is done."""
        await self._environment.fast_forward(handle, seconds)
        # Answered only after the last timer's workflow task.
        await handle.query("__temporal_workflow_metadata")

    async def now(self, handle: WorkflowHandle[Any, Any]) -> datetime:
        """The workflow's time."""
        return await self._environment.get_current_time(handle)
