"""Which platforms take our key, as their answers have shown it."""

import time
from collections.abc import Callable, Mapping
from typing import Final

HEALTHY: Final = "healthy"
LOGIN_REQUIRED: Final = "login_required"


class Logins:
    """Login health by platform, for heartbeats; a platform that was never asked is not named.

    A refusal stands for `recheck` seconds. Then the platform counts as unknown, so that a task comes again and shows
    whether somebody has mended the key.
    """

    def __init__(self, recheck: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._recheck = recheck
        self._clock = clock
        self._taken: set[str] = set()
        self._refused: dict[str, float] = {}

    def taken(self, platform: str) -> None:
        """The platform took the key."""
        self._refused.pop(platform, None)
        self._taken.add(platform)

    def refused(self, platform: str) -> None:
        """It did not, or there is none."""
        self._taken.discard(platform)
        self._refused[platform] = self._clock() + self._recheck

    def sessions(self) -> Mapping[str, str]:
        """Health by platform; refusals that are too old are forgotten."""
        now = self._clock()
        self._refused = {platform: until for platform, until in self._refused.items() if until > now}
        return dict.fromkeys(self._taken, HEALTHY) | dict.fromkeys(self._refused, LOGIN_REQUIRED)
