"""Bodies and references of the desktop's lease calls, for tests that call the store."""

from domain.desktop_calls import InterruptAckCall, ResultCall
from domain.hub_port import ClientIdentity
from domain.phases import Phase, SafePoint
from store.leases import LeaseRef
from tests.support.world import Desktop, Lease, World


def identity(world: World, client: Desktop) -> ClientIdentity:
    return ClientIdentity(client.id, world.tenant_id)


def ref(world: World, client: Desktop, lease: Lease) -> LeaseRef:
    return LeaseRef(identity(world, client), lease.task_id, lease.token)


def ack(lease: Lease | None, generation: int) -> InterruptAckCall:
    return InterruptAckCall(
        lease_token=lease.token if lease else None,
        interrupt_generation=generation,
        phase=Phase.INPUTTING,
        safe_point=SafePoint.BEFORE_INPUT,
        safe_point_interval_ms=1234.5,
        phase_times={Phase.PREPARING: 10, Phase.NAVIGATING: 20},
    )


def result(lease: Lease, outcome: str = "succeeded") -> ResultCall:
    body = {"lease_token": lease.token, "attempt_id": lease.attempt_id, "outcome": outcome, "raw": "{}"}
    return ResultCall.model_validate(body)
