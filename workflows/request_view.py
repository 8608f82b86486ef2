"""How a request shows itself to operators: search attributes and current details (6-operations, Control)."""

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

with workflow.unsafe.imports_passed_through():
    from domain.messages import AcceptOutcome, AcceptResult, CollectNowStart, SearchAttribute
    from workflows.request_state import RequestState

TENANT = SearchAttributeKey.for_keyword(SearchAttribute.TENANT)
BRAND = SearchAttributeKey.for_keyword(SearchAttribute.BRAND)
CLIENT = SearchAttributeKey.for_keyword(SearchAttribute.CLIENT)
BUSINESS_DATE = SearchAttributeKey.for_keyword(SearchAttribute.BUSINESS_DATE)
STATUS = SearchAttributeKey.for_keyword(SearchAttribute.STATUS)
GENERATION = SearchAttributeKey.for_int(SearchAttribute.GENERATION)


class RequestView:
    """Shows the state; a search attribute is written only when it has changed, since each write is an event."""

    def __init__(self, start: CollectNowStart, state: RequestState) -> None:
        self._start = start
        self._state = state
        self._shown = state.searchable

    def show_accepted(self, accepted: AcceptResult) -> None:
        """The request is found from here on."""
        date = BUSINESS_DATE.value_set(str(accepted.business_date))
        workflow.upsert_search_attributes([*self._owner(), date, *self._current()])
        self.show()

    def show_nothing(self, accepted: AcceptResult | None) -> str:
        """A run whose call came to nothing, or to another run, is found by what became of it; returns that."""
        status = _nothing_to_follow(accepted)
        workflow.upsert_search_attributes([*self._owner(), STATUS.value_set(status)])
        return status

    def show(self) -> None:
        """The state as it is now."""
        workflow.set_current_details(self._state.summary())
        if self._shown != self._state.searchable:
            workflow.upsert_search_attributes(self._current())

    def _owner(self) -> list[SearchAttributeUpdate[str]]:
        return [TENANT.value_set(str(self._start.tenant_id)), BRAND.value_set(str(self._start.brand_id))]

    def _current(self) -> list[SearchAttributeUpdate[str] | SearchAttributeUpdate[int]]:
        self._shown = self._state.searchable
        status, client_id, generation = self._shown
        return [
            STATUS.value_set(status),
            CLIENT.value_set(str(client_id) if client_id else "none"),
            GENERATION.value_set(generation),
        ]


def _nothing_to_follow(accepted: AcceptResult | None) -> str:
    if accepted is None:
        return "abandoned"
    return "duplicate" if accepted.outcome is AcceptOutcome.REPLAYED else "refused"
