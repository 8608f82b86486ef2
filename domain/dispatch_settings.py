"""Hot settings of the dispatcher, their defaults and fuses (1-dispatch §1.3, §1.5).

A fuse is the hard ceiling: a setting above it is refused. Stored a row a key in `dispatch_settings`.
"""

import logging
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, Final

from domain.errors import InvalidInput, OverFuse
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
class Fuses:
    """The hard ceilings of one installation. Not hot: raised by who owns the database (`giveway settings fuse`)."""

    cluster_per_minute: int = 500
    tenant_per_minute: int = 60
    client_concurrency: int = 4
    client_queue_depth: int = 40
    platform_concurrency: int = 2
    scheduled_share: float = 1.0
    normal_floor: float = 0.5
    rollout_percent: int = 100
    coordinator_shards: int = 16
    active_requests_per_tenant: int = 2


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
    # Share of each minute window that stays for normal work on other clients while high is backlogged.
    normal_floor: float = 0.2
    # Retry goes only while less normal work than this waits.
    retry_low_water: int = 50
    # Aging looks this often at work that has waited at least so long.
    aging_scan_seconds: int = 30
    aging_wait_seconds: int = 300
    preempt_policy: PreemptPolicy = PreemptPolicy.ALL
    max_preemptions: int = 3
    request_ttl_seconds: int = 300
    request_hard_end_seconds: int = 1800
    active_requests_per_tenant: int = 2
    requests_per_user_hour: int = 20
    # Desktops that a tenant may have, and register in an hour.
    clients_per_tenant: int = 10_000
    interrupt_soft_timeout_ms: int = 15_000
    interrupt_hard_timeout_ms: int = 45_000
    # Lanes, by name, that the coordinator leaves alone.
    paused_lanes: tuple[str, ...] = ()
    # New tasks of tenants with `tenant_id % 100` below it run on `desktop_tasks`, the others on the legacy path.
    rollout_percent: int = 100
    # How many coordinators share the tenants: `tenant_id % coordinator_shards` is the owner's shard.
    coordinator_shards: int = 1
    fuses: Fuses = Fuses()


_DEFAULTS: Final = DispatchSettings()
KEYS: Final = tuple(field.name for field in fields(DispatchSettings) if field.name != "fuses")
FUSE_KEYS: Final = tuple(field.name for field in fields(Fuses))
# More than anybody means, and still a number that every statement takes.
_MOST: Final = 1_000_000_000
# A zero would stop the loop that reads it, or divide by nothing.
_AT_LEAST_ONE: Final = frozenset({"coordinator_shards", "aging_scan_seconds"})


def check_setting(key: str, value: Any, fuses: Fuses = Fuses()) -> Any:
    """The value in its type, or InvalidInput: unknown key, wrong type, negative; OverFuse above the fuse."""
    if key not in KEYS:
        raise InvalidInput(f"there is no dispatch setting {key!r}; known are {', '.join(KEYS)}")
    typed = _typed(key, value)
    if isinstance(typed, int | float) and not math.isfinite(typed):
        raise InvalidInput(f"{key} must be a finite number")
    if isinstance(typed, int | float) and typed < (1 if key in _AT_LEAST_ONE else 0):
        raise InvalidInput(f"{key} must not be below {1 if key in _AT_LEAST_ONE else 0}")
    if isinstance(typed, int | float) and typed > _MOST:
        raise InvalidInput(f"{key} must not be above {_MOST}")
    if key in FUSE_KEYS and typed > getattr(fuses, key):
        limit = getattr(fuses, key)
        raise OverFuse(f"{key}={value} is over its fuse of {limit:g}; lower it", fuse=key, limit=limit)
    return typed


def check_together(settings: DispatchSettings) -> None:
    """InvalidInput for settings that each are acceptable, and not beside each other."""
    soft, hard = settings.interrupt_soft_timeout_ms, settings.interrupt_hard_timeout_ms
    if soft > hard:
        raise InvalidInput(f"the soft timeout of {soft} ms is over the hard one of {hard} ms; change the other one too")


def check_fuse(key: str, value: Any) -> float:
    """A fuse's new value, or InvalidInput: unknown key, not a positive finite number."""
    if key not in FUSE_KEYS:
        raise InvalidInput(f"there is no fuse {key!r}; known are {', '.join(FUSE_KEYS)}")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise InvalidInput(f"the fuse {key} takes a positive number, not {value!r}")
    return value


def _typed(key: str, value: Any) -> Any:
    default = getattr(_DEFAULTS, key)
    try:
        if isinstance(default, tuple):
            return _lanes(value)
        if isinstance(value, bool) or (isinstance(default, int) and value != int(value)):
            raise ValueError
        return type(default)(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{key} takes {_wanted(default)}, not {value!r}") from None


def _wanted(default: Any) -> str:
    """What a setting with this default takes, for a person."""
    if isinstance(default, tuple):
        return f"a list of lanes out of {', '.join(lane.value for lane in MONITOR_LANES)}"
    if isinstance(default, StrEnum):
        return f"one of {', '.join(each.value for each in type(default))}"
    return f"a whole number like {default}" if isinstance(default, int) else f"a number like {default}"


def _lanes(value: Any) -> tuple[str, ...]:
    """Names of monitor lanes, once each; ValueError for anything else, a bare string included."""
    if isinstance(value, str):
        raise ValueError(value)
    return tuple(dict.fromkeys(MONITOR_LANES[MONITOR_LANES.index(Lane(item))].value for item in value))


def fuses_from_rows(rows: Mapping[str, Any]) -> Fuses:
    """The installation's fuses over the defaults; an unknown or unusable row is skipped."""
    values: dict[str, Any] = {}
    defaults: dict[str, Any] = asdict(Fuses())
    for key, value in rows.items():
        try:
            values[key] = type(defaults.get(key, 0))(check_fuse(key, value))
        except InvalidInput as error:
            log.warning("fuse %s falls back to its default: %s", key, error)
    return Fuses(**values)


def from_rows(rows: Mapping[str, Any], fuses: Fuses = Fuses()) -> DispatchSettings:
    """The settings stored, over the defaults. A stored value that is no longer acceptable falls back to its default."""
    values = {}
    for key, value in rows.items():
        try:
            values[key] = check_setting(key, value, fuses)
        except InvalidInput as error:
            log.warning("dispatch setting %s falls back to its default: %s", key, error)
    return DispatchSettings(**values, fuses=fuses)
