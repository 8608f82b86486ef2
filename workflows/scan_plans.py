"""Every minute: due plans become batches (1-dispatch §1.6). Started by the Schedule `scan-plans`."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from activities.batches import PlanActivities
    from domain.messages import ScanResult


@workflow.defn(name="ScanPlans")
class ScanPlans:
    """One scan; what it can't start is found again by the next."""

    @workflow.run
    async def run(self) -> ScanResult:
        """Claim due plans and start their batches."""
        result = await workflow.execute_activity_method(
            PlanActivities.scan_plans,
            start_to_close_timeout=timedelta(seconds=30),
            retry_policy=RetryPolicy(maximum_attempts=3),
        )
        workflow.set_current_details(
            f"{result.due} plans due, {result.started} batches started, {result.skipped_slots} missed slots skipped"
        )
        return result
