"""Every week: interrupt timeouts follow the measured safe-point intervals (1-dispatch §1.5, dispatch §10.5)."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from activities.tuning import TuningActivities
    from domain.messages import TunedPlatform, TuneOrder, TuneResult


@workflow.defn(name="TuneTimeouts")
class TuneTimeouts:
    """One retuning. Started by the Schedule `tune-timeouts`, by `giveway tune` and by operators."""

    @workflow.run
    async def run(self, order: TuneOrder | None = None) -> TuneResult:
        """Measure and set; what fails is tried again, and else left to the next week."""
        result = await workflow.execute_activity_method(
            TuningActivities.tune_timeouts,
            order or TuneOrder(),
            start_to_close_timeout=timedelta(seconds=60),
            retry_policy=RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=5),
        )
        workflow.set_current_details(_summary(result))
        return result


def _summary(result: TuneResult) -> str:
    """Markdown for the Temporal UI's current details: platforms that were measured."""
    head = "**nothing was changed: dry run**" if result.dry_run else "**timeouts by platform**"
    lines = [_line(each) for each in result.platforms if each.p95_ms is not None]
    return "\n".join([head, *(lines or ["- no interval was measured in the last week"])])


def _line(tuned: TunedPlatform) -> str:
    (soft, hard), (soft_now, hard_now) = tuned.before, tuned.after
    return (
        f"- {tuned.platform}: {tuned.outcome}, soft/hard {soft}/{hard} → {soft_now}/{hard_now} ms,"
        f" P95 {tuned.p95_ms:.0f} ms of {tuned.samples}"
    )
