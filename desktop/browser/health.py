"""What a desktop knows of its logins, over all its tasks (2-desktop §2.1: `platform_sessions`)."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """Login health as heartbeats carry it."""

    HEALTHY = "healthy"
    LOGIN_REQUIRED = "login_required"
    HUMAN_CHECK = "human_check"
    BLOCKED = "blocked"

    @property
    def needs_person(self) -> bool:
        return self in (Health.LOGIN_REQUIRED, Health.HUMAN_CHECK)


@dataclass(frozen=True, slots=True)
class _Seen:
    health: Health
    at: float


class Sessions:
    """Health by platform, as last seen. A platform that no page was opened of is unknown."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def note(self, platforms: Iterable[str], health: Health) -> None:
        """What a page just showed."""
        for platform in platforms:
            self._seen[platform] = _Seen(health, time.monotonic())

    def known(self) -> Mapping[str, str]:
        """As frames carry it."""
        return {platform: seen.health.value for platform, seen in self._seen.items()}

    def due(self, every: float) -> list[str]:
        """Platforms that were not healthy when last looked at, `every` seconds ago or more: no work comes to tell."""
        now = time.monotonic()
        return [
            platform
            for platform, seen in self._seen.items()
            if seen.health is not Health.HEALTHY and now - seen.at >= every
        ]
