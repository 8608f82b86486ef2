"""What operators can pause (1-dispatch §1.3; dispatch §15.3)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never
from uuid import UUID

from domain.errors import InvalidInput
from domain.lanes import MONITOR_LANES, Lane


class PauseKind(StrEnum):
    """What a pause is about."""

    LANE = "lane"
    TENANT = "tenant"
    PLATFORM = "platform"
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class PauseTarget:
    """One lane, tenant, platform or client; of the four fields the kind's alone is set."""

    kind: PauseKind
    lane: Lane | None = None
    tenant_id: int | None = None
    platform: str | None = None
    client_id: UUID | None = None

    @property
    def key(self) -> str:
        """The target's name, number or id, as text."""
        return str(
            next(part for part in (self.lane, self.tenant_id, self.platform, self.client_id) if part is not None)
        )


def pause_target(kind: PauseKind, key: str) -> PauseTarget:
    """The target that a caller names; InvalidInput when the key cannot be one of the kind."""
    try:
        match kind:
            case PauseKind.LANE:
                return PauseTarget(kind, lane=_monitor_lane(key))
            case PauseKind.TENANT:
                return PauseTarget(kind, tenant_id=_identity(key))
            case PauseKind.PLATFORM:
                return PauseTarget(kind, platform=key)
            case PauseKind.CLIENT:
                return PauseTarget(kind, client_id=UUID(key))
            case _:
                assert_never(kind)
    except ValueError:
        raise InvalidInput(f"{key!r} is no {kind.value}") from None


def _monitor_lane(key: str) -> Lane:
    lane = Lane(key)
    if lane not in MONITOR_LANES:
        raise ValueError(key)
    return lane


def _identity(key: str) -> int:
    """A bigint identity."""
    number = int(key)
    if not 0 < number < 2**63:
        raise ValueError(key)
    return number
