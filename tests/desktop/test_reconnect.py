"""When a desktop comes back: spread over seconds, longer with each failure, never later than promised (ADR 0050)."""

from datetime import UTC, datetime
from email.utils import format_datetime
from random import Random
from statistics import quantiles

import pytest

from desktop.backoff import Backoff
from desktop.config import CROWDED, RECONNECT, Timings
from desktop.naps import NapWatch
from desktop.reconnect import LONGEST_ASKED, Ended, Reconnect, retry_after
from domain.protocol import SILENCE_SECONDS, CloseCode

LOST = Ended(1006, "connection lost")
NOW = datetime(2026, 4, 20, 10, 0, 0, tzinfo=UTC)
# "1,000 clients back within 15 s": what the waiting leaves for the greetings.
GREETING_SECONDS = 5.0


def herd(size: int = 1000) -> list[Reconnect]:
    rng = Random(5)
    return [Reconnect(Timings(), Random(rng.random())) for _ in range(size)]


@pytest.mark.parametrize("code", [1006, CloseCode.SERVICE_RESTART, CloseCode.SERVER_ERROR, 1011])
def test_a_thousand_desktops_dropped_in_one_instant_come_back_spread_over_five_seconds(code: int) -> None:
    delays = [one.delay(Ended(code, "", lasted=3600.0)) for one in herd()]
    assert min(delays) >= 0.0
    assert max(delays) <= 5.0
    # Uniform: each tenth of the time has about a tenth of them.
    for tenth, cut in enumerate(quantiles(delays, n=10), start=1):
        assert cut == pytest.approx(0.5 * tenth, abs=0.25)
    assert max(sum(low <= delay < low + 0.1 for delay in delays) for low in (n / 10 for n in range(50))) < 60


def test_whoever_misses_a_hub_that_is_away_comes_within_fifteen_seconds_of_its_return() -> None:
    for one in herd(100):
        waits = [one.delay(LOST) for _ in range(20)]
        assert max(waits) <= 15.0 - GREETING_SECONDS


def test_desktops_that_wait_for_a_hub_are_still_spread_after_many_tries() -> None:
    desktops = herd()
    for _ in range(9):
        delays = [one.delay(LOST) for one in desktops]
    for tenth, cut in enumerate(quantiles(delays, n=10), start=1):
        assert cut == pytest.approx(1.0 * tenth, abs=0.5)


def test_waits_grow_to_their_bound_and_keep_their_floor() -> None:
    backoff, rng = Backoff(1.0, 60.0, least=5.0), Random(7)
    for tries in range(2000):
        assert 5.0 <= backoff.delay(tries, rng) <= min(60.0, 5.0 + 2.0 ** min(tries, 10))


@pytest.mark.parametrize("code", [CloseCode.SLOW_CONSUMER, CloseCode.TOO_MANY_FRAMES, CloseCode.HUB_FULL])
def test_a_close_that_says_too_much_is_followed_by_a_longer_wait(code: CloseCode) -> None:
    delays = [one.delay(Ended(code, "", lasted=3600.0)) for one in herd()]
    assert min(delays) >= 5.0
    assert max(delays) <= 15.0
    for tenth, cut in enumerate(quantiles(delays, n=10), start=1):
        assert cut == pytest.approx(5.0 + tenth, abs=0.5)


def test_a_desktop_that_was_too_much_once_is_not_lost_for_it() -> None:
    # Offline and lost only after the silence: the first wait ends well before.
    assert CROWDED.least + CROWDED.first < SILENCE_SECONDS
    assert RECONNECT.longest < SILENCE_SECONDS


def test_a_connection_that_did_not_hold_does_not_start_the_count_anew() -> None:
    one = Reconnect(Timings(reconnect=Backoff(1.0, 64.0)), Highest())
    assert [one.delay(Ended(1006, "", lasted=lasted)) for lasted in (3600, 0, 29.9, 5, 30.0, 0)] == [1, 2, 4, 8, 1, 2]


class Highest(Random):
    """Chance that always takes the upper end."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


def test_what_a_busy_server_asks_for_comes_on_top_of_the_spread() -> None:
    delays = [one.delay(Ended(503, "", asked=20.0)) for one in herd()]
    assert min(delays) >= 20.0
    for tenth, cut in enumerate(quantiles(delays, n=10), start=1):
        assert cut == pytest.approx(20.0 + 0.5 * tenth, abs=0.25)


def test_a_server_that_asks_for_a_day_is_not_believed() -> None:
    assert Reconnect(Timings(), Random(1)).delay(Ended(503, "", asked=86_400.0)) <= LONGEST_ASKED + RECONNECT.longest


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("120", 120.0),
        (" 2.5 ", 2.5),
        ("-3", 0.0),
        ("nan", 0.0),
        ("soon", None),
        ("", None),
        ("Mon, 20 Apr 2026 10:00:30 +99999999999999", None),
        (format_datetime(NOW.replace(minute=2), usegmt=True), 120.0),
        (format_datetime(NOW.replace(hour=9), usegmt=True), 0.0),
        ("Mon, 20 Apr 2026 10:00:30 -0000", 30.0),
    ],
)
def test_retry_after_is_read_in_both_of_its_forms(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, NOW) == seconds


def test_a_nap_is_seen_by_whichever_clock_went_on() -> None:
    wall, steady = [100.0], [5.0]
    naps = NapWatch(wall=lambda: wall[0], steady=lambda: steady[0])
    wall[0] += 10.0
    steady[0] += 10.0
    assert naps.look() == 10.0
    wall[0] += 3600.0  # asleep: the monotonic clock of Linux stood still
    assert naps.look() == 3600.0
    steady[0] += 60.0
    wall[0] -= 600.0  # and was set back
    assert naps.look() == 60.0
