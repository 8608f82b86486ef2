"""What operators see of a batch in the Temporal UI: search attributes and current details (6-operations, Control)."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from temporalio import workflow
from temporalio.common import SearchAttributeKey

with workflow.unsafe.imports_passed_through():
    from domain.messages import BatchCounters, BatchStart, BatchYield, SearchAttribute

TENANT = SearchAttributeKey.for_keyword(SearchAttribute.TENANT)
BRAND = SearchAttributeKey.for_keyword(SearchAttribute.BRAND)
CLIENT = SearchAttributeKey.for_keyword(SearchAttribute.CLIENT)
BUSINESS_DATE = SearchAttributeKey.for_keyword(SearchAttribute.BUSINESS_DATE)
STATUS = SearchAttributeKey.for_keyword(SearchAttribute.STATUS)
GENERATION = SearchAttributeKey.for_int(SearchAttribute.GENERATION)


@dataclass(frozen=True, slots=True)
class BatchView:
    """The batch as it is shown. `counters` None: its tasks are still being created."""

    counters: BatchCounters | None
    expected: int
    settled: int
    dispatched: int
    gave_way: int
    yields: Iterable[BatchYield]


def tag_start(start: BatchStart) -> None:
    """Whose batch of which day, once a batch."""
    workflow.upsert_search_attributes(
        [
            TENANT.value_set(str(start.tenant_id)),
            BRAND.value_set(str(start.brand_id)),
            BUSINESS_DATE.value_set(start.business_date.isoformat()),
            STATUS.value_set("running"),
            GENERATION.value_set(0),
        ]
    )


def tag_status(status: str) -> None:
    """The status by which batches are listed."""
    workflow.upsert_search_attributes([STATUS.value_set(status)])


def tag_yield(client_id: UUID, generation: int) -> None:
    """Whom the batch gave way on last, at which generation."""
    workflow.upsert_search_attributes([CLIENT.value_set(str(client_id)), GENERATION.value_set(generation)])


def show(view: BatchView) -> None:
    """The current details."""
    workflow.set_current_details("\n".join(_lines(view)))


def _lines(view: BatchView) -> Iterable[str]:
    counters = view.counters
    yield (
        f"**{counters.status if counters else 'materialising'}**: {view.settled} of {view.expected} tasks settled, "
        f"{view.dispatched} dispatched; {view.gave_way} gave way so far"
    )
    if counters is not None:
        yield from _counted(counters)
    for given in view.yields:
        yield f"- client `{given.client_id}` yields since {given.since:%H:%M:%S}"


def _counted(counters: BatchCounters) -> Iterable[str]:
    yield (
        f"- {counters.completed} completed, {counters.failed} failed, {counters.skipped} skipped, "
        f"{counters.expired} expired"
    )
    if counters.held:
        yield f"- {counters.held} held until the batch is resumed"
    if counters.skipped_slots:
        yield f"- stands for {counters.skipped_slots} missed slots besides its own"
    if counters.backfill_of is not None:
        yield f"- backfill of batch {counters.backfill_of}"
    if counters.backfill_id is not None:
        yield f"- what the cut-off left is collected by batch {counters.backfill_id}"
