"""Whether a desktop can work: its disk and its driver, as heartbeats tell it (2-desktop §2.4)."""

import logging
import time
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

# Errors in a row that the driver did not foresee; one may be the question's fault.
FAULTS: Final = 3
# After so many seconds the next question may show that the driver is well again.
RECHECK: Final = 60.0


class Health:
    """`keeps_results`: the disk takes results. `driver_well`: what the driver thinks of itself."""

    def __init__(
        self,
        keeps_results: Callable[[], bool],
        driver_well: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keeps_results = keeps_results
        self._driver_well = driver_well
        self._clock = clock
        self._faults = 0
        self._ill_until = 0.0
        self._said = ""

    def worked(self) -> None:
        """The driver has answered a question."""
        self._faults, self._ill_until = 0, 0.0

    def failed(self) -> None:
        """The driver failed with an error that it did not foresee."""
        self._faults += 1
        if self._faults >= FAULTS:
            self._ill_until = self._clock() + RECHECK

    def healthy(self) -> bool:
        """Whether work should come here."""
        why = self._why_not()
        if why != self._said:
            log.warning("this desktop takes no work: %s", why) if why else log.info("this desktop takes work again")
            self._said = why
        return not why

    def _why_not(self) -> str:
        if not self._keeps_results():
            return "its disk is full or cannot be written"
        if self._clock() < self._ill_until:
            return f"its driver failed {self._faults} times in a row"
        return "" if self._driver_well() else "its driver says that it cannot work"
