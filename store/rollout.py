"""Which path new work of a tenant takes, by the roll-out as it is set now (1-dispatch §1.7)."""

from domain.legacy import ExecutionOwner, execution_owner
from store.database import Connection
from store.settings import read_dispatch_settings


async def path_of_new_work(connection: Connection, tenant_id: int) -> ExecutionOwner:
    """The execution owner of tasks created, or asked anew, in this transaction; tasks in flight keep theirs."""
    return execution_owner(tenant_id, (await read_dispatch_settings(connection)).rollout_percent)
