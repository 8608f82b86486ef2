"""The effects of the CollectNow workflow on its request; local activities, each one short transaction."""

from temporalio import activity

from domain.messages import AcceptCommand, AcceptResult, RequestCounters, RequestRef
from store import requests
from store.accept import accept_collect_now
from store.database import Pool


class RequestActivities:
    """Each method is idempotent and touches only what the request holds."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @activity.defn
    async def accept_request(self, command: AcceptCommand) -> AcceptResult:
        """The accept transaction (1-dispatch §1.5)."""
        return await accept_collect_now(self._pool, command)

    @activity.defn
    async def find_accepted(self, ref: RequestRef) -> AcceptResult | None:
        """What the accept answered, if it committed; None: there is no such request."""
        return await requests.find_accepted(self._pool, ref)

    @activity.defn
    async def read_request(self, ref: RequestRef) -> RequestCounters:
        """The request as it stands."""
        return await requests.read_request(self._pool, ref)

    @activity.defn
    async def set_request_hint(self, ref: RequestRef) -> RequestCounters:
        """Show a hint to whoever watches the request."""
        return await requests.set_hint(self._pool, ref)

    @activity.defn
    async def release_client(self, ref: RequestRef) -> RequestCounters:
        """Unbind the request's waiting tasks from a lost client."""
        return await requests.release_client(self._pool, ref)

    @activity.defn
    async def force_release(self, ref: RequestRef) -> RequestCounters:
        """Revoke the leases of victims that did not stop in time."""
        return await requests.force_release(self._pool, ref)

    @activity.defn
    async def expire_request(self, ref: RequestRef) -> RequestCounters:
        """End a request that nothing was dispatched of within its TTL."""
        return await requests.expire_request(self._pool, ref)

    @activity.defn
    async def end_request(self, ref: RequestRef) -> RequestCounters:
        """End a request at its hard deadline."""
        return await requests.end_request(self._pool, ref)

    @activity.defn
    async def withdraw_interrupts(self, ref: RequestRef) -> RequestCounters:
        """The request is over: nobody needs to stop for it any more."""
        return await requests.withdraw_interrupts(self._pool, ref)

    @activity.defn
    async def cancel_request(self, ref: RequestRef) -> RequestCounters:
        """Withdraw the request; what runs finishes."""
        return await requests.cancel_request(self._pool, ref)
