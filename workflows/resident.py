"""Keeps one resident loop alive for ever (1-dispatch §1.9)."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.resident import ResidentActivities
    from domain.messages import RESIDENT_QUEUE, ResidentStart

# Retries of the activity write no history, so a run costs five events; a new one a day keeps it inspectable.
RUN_LENGTH = timedelta(hours=24)


@workflow.defn(name="Resident")
class Resident:
    """One heartbeating activity, retried for ever; 5 s without a heartbeat move it to another worker."""

    @workflow.run
    async def run(self, start: ResidentStart) -> None:
        """Run the role; continues as new once a day."""
        workflow.set_current_details(f"resident loop **{start.role}**, shard {start.shard}")
        try:
            await workflow.execute_activity_method(
                ResidentActivities.run_resident,
                start,
                task_queue=RESIDENT_QUEUE,
                start_to_close_timeout=timedelta(seconds=start.rotate_after_seconds + 60),
                schedule_to_close_timeout=RUN_LENGTH,
                heartbeat_timeout=timedelta(seconds=5),
                retry_policy=RetryPolicy(
                    initial_interval=timedelta(milliseconds=200),
                    backoff_coefficient=1.5,
                    maximum_interval=timedelta(seconds=1),
                ),
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
        workflow.continue_as_new(start)
