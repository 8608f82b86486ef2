"""What one desktop is told before it starts."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from desktop.backoff import Backoff
from desktop.driver import Driver
from domain import protocol

# Everybody who lost a hub in the same instant is back within 15 s of a hub being there: at most 10 s of waiting, the
# rest for the greeting (ADR 0050).
RECONNECT: Final = Backoff(5.0, 10.0)
# After a close that says "too much" the same soon would only be more of it.
CROWDED: Final = Backoff(10.0, 60.0, least=5.0)
RESEND: Final = Backoff(0.5, 30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Waiting times in seconds; the defaults are the protocol's."""

    heartbeat: float = float(protocol.HEARTBEAT_SECONDS)
    # A hub that does not answer hello in this time is left. Long: it may be greeting a thousand others, and leaving it
    # means to queue up behind them again.
    snapshot: float = 30.0
    # An idle desktop asks for a snapshot this often, so that a push lost behind a healthy socket is found.
    idle_sync: float = 60.0
    lease: float = float(protocol.LEASE_SECONDS)
    # How long a task waits after `no_slot` when nothing ends here before.
    no_slot: float = 1.0
    # After `stale_generation` the server sends the current order: wait for it at the safe point.
    stale_grace: float = 0.3
    # A ping so often; a hub from which no pong came within `dead` of the last news is gone.
    ping: float = 15.0
    dead: float = 30.0
    # A connection that served this long has held: the next wait is the first one again.
    settled: float = 30.0
    reconnect: Backoff = RECONNECT
    crowded: Backoff = CROWDED
    resend: Backoff = RESEND


@dataclass(frozen=True, slots=True, kw_only=True)
class DesktopConfig:
    """One desktop: who it is, where the server is, what runs its questions.

    `ws_url` is the whole WebSocket address, `api_url` the base of the REST calls (`http://host:port`). Everything
    kept between runs lies under `state_dir/{client_id}`.
    """

    client_id: str
    token: str = field(repr=False)
    ws_url: str
    api_url: str
    state_dir: Path
    driver: Driver
    max_concurrent: int = 2
    name: str = ""
    version: str = "0.1.0"
    timings: Timings = Timings()

    @property
    def home(self) -> Path:
        """This client's own folder."""
        return self.state_dir / self.client_id
