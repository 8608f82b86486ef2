"""Hot settings of the dispatcher, their defaults and fuses (1-dispatch §1.3, §1.5).

A fuse is the hard ceiling: a setting above it is refused. Stored a row a key in `dispatch_settings`.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

from domain.errors import InvalidInput
from domain.lanes import MONITOR_LANES, Lane

log = logging.getLogger(__name__)


class PreemptPolicy(StrEnum):
    """Whom an accept interrupts: every running scheduled task of the client, or only as many as it lacks slots."""

    ALL = "all"
    NEEDED = "needed"


class PlatformScope(StrEnum):
    """Over whose clients platform concurrency is counted."""

    TENANT = "tenant"
    GLOBAL = "global"


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    """One consistent reading of the hot settings. Times in seconds unless the name says ms."""

    cluster_per_minute: int = 300
    tenant_per_minute: int = 30
    client_concurrency: int = 2
    client_queue_depth: int = 20
    platform_concurrency: int = 1
    platform_concurrency_scope: PlatformScope = PlatformScope.TENANT
    # Share of the cluster setting at which normal and retry stop, so that a click never waits for a window.
    scheduled_share: float = 0.8
    preempt_policy: PreemptPolicy = PreemptPolicy.ALL
    max_preemptions: int = 3
    request_ttl_seconds: int = 300
    request_hard_end_seconds: int = 1800
    active_requests_per_tenant: int = 2
    requests_per_user_hour: int = 20
    interrupt_soft_timeout_ms: int = 15_000
    interrupt_hard_timeout_ms: int = 45_000
    # Lanes, by name, that the coordinator leaves alone.
    paused_lanes: tuple[str, ...] = ()


FUSES: Final[Mapping[str, float]] = {
    "cluster_per_minute": 500,
    "tenant_per_minute": 60,
    "client_concurrency": 4,
    "client_queue_depth": 40,
    "platform_concurrency": 2,
    "scheduled_share": 1.0,
    "active_requests_per_tenant": 2,
}

_DEFAULTS: Final = DispatchSettings()
KEYS: Final = tuple(field.name for field in fields(DispatchSettings))


def check_setting(key: str, value: Any) -> Any:
    """The value in its type, or InvalidInput: unknown key, wrong type, negative, or over the fuse."""
    if key not in KEYS:
        raise InvalidInput(f"there is no dispatch setting {key!r}; known are {', '.join(KEYS)}")
    typed = _typed(key, value)
    if isinstance(typed, int | float) and typed < 0:
        raise InvalidInput(f"{key} must not be negative")
    if key in FUSES and typed > FUSES[key]:
        raise InvalidInput(f"{key}={value} is over its fuse of {FUSES[key]:g}; lower it")
    return typed


def _typed(key: str, value: Any) -> Any:
    default = getattr(_DEFAULTS, key)
    try:
        if isinstance(default, tuple):
            return _lanes(value)
        if isinstance(value, bool) or (isinstance(default, int) and value != int(value)):
            raise ValueError
        return type(default)(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{key} takes a value like {default!r}, not {value!r}") from None


def _lanes(value: Any) -> tuple[str, ...]:
    """Names of monitor lanes, once each; ValueError for anything else, a bare string included."""
    if isinstance(value, str):
        raise ValueError(value)
    return tuple(dict.fromkeys(MONITOR_LANES[MONITOR_LANES.index(Lane(item))].value for item in value))


def from_rows(rows: Mapping[str, Any]) -> DispatchSettings:
    """The settings stored, over the defaults. A stored value that is no longer acceptable falls back to its default."""
    values = {}
    for key, value in rows.items():
        try:
            values[key] = check_setting(key, value)
        except InvalidInput as error:
            log.warning("dispatch setting %s falls back to its default: %s", key, error)
    return DispatchSettings(**values)
