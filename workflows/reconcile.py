"""Every five minutes, and when a worker starts: what does not heal by itself is mended (1-dispatch §1.8)."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from activities.reconcile import ReconcileActivities
    from domain.messages import ReconcileResult, WorkflowFixes

AT_MOST = timedelta(minutes=4)
SILENCE = timedelta(seconds=60)
# What a run can't mend is the next one's.
RETRY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=3)


@workflow.defn(name="Reconcile")
class Reconcile:
    """One run, 17 events. Started by the Schedule `reconcile`, by `giveway reconcile` and by operators."""

    @workflow.run
    async def run(self) -> ReconcileResult:
        """First the database, so that the workflows which are started find it whole."""
        database = await workflow.execute_activity_method(
            ReconcileActivities.reconcile_database,
            start_to_close_timeout=AT_MOST,
            heartbeat_timeout=SILENCE,
            retry_policy=RETRY,
        )
        self._show(ReconcileResult(database=database.fixed, found=database.found))
        workflows: WorkflowFixes = await workflow.execute_activity_method(
            ReconcileActivities.reconcile_workflows,
            start_to_close_timeout=AT_MOST,
            heartbeat_timeout=SILENCE,
            retry_policy=RETRY,
        )
        result = ReconcileResult(database=database.fixed, workflows=workflows, found=database.found)
        self._show(result)
        return result

    def _show(self, result: ReconcileResult) -> None:
        """Markdown for the Temporal UI's current details."""
        mended = [f"- {kind}: {count}" for kind, count in result.by_kind().items() if count]
        found = result.found
        seen = [f"- {found.outbox_waiting} effects wait for over a minute"] if found.outbox_waiting else []
        seen += [f"- {found.orphans_running} execution tasks run for nobody"] if found.orphans_running else []
        seen += [f"- could not be looked at: {', '.join(found.failed)}"] if found.failed else []
        head = "**nothing to mend**" if not mended else f"**{sum(result.by_kind().values())} mended**"
        workflow.set_current_details("\n".join([head, *mended, *seen]))
