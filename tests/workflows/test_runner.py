"""A workflow that ends before its handlers fails its task: pytest turns that warning into an error."""

from temporalio.api.enums.v1 import EventType
from temporalio.worker import Worker

from domain.ids import new_uuid
from tests.workflows.careless import Careless
from tests.workflows.clock import Clock
from tests.workflows.stage import until


async def test_a_workflow_that_leaves_a_handler_unfinished_fails_its_task(clock: Clock) -> None:
    queue = f"test-{new_uuid()}"
    async with Worker(clock.client, task_queue=queue, workflows=[Careless]):
        handle = await clock.client.start_workflow(Careless.run, id=queue, task_queue=queue)
        await handle.signal(Careless.linger)

        async def failed() -> bool:
            types = [event.event_type async for event in handle.fetch_history_events()]
            return EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED in types

        await until(failed)
        await handle.terminate()
