"""How long the suites wait; the defaults are the protocol's times with room for a slow machine. Seconds."""

from dataclasses import dataclass
from typing import Final

from domain import protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPace:
    """For the scripted hub. `patience` bounds each step of a client, a whole question included."""

    patience: float = 60.0
    # Until a person (or the command) has started the client.
    arrival: float = 300.0
    hello: float = float(protocol.AUTHENTICATION_SECONDS)
    # Between two heartbeats: 10 s, and what a busy machine adds.
    heartbeat: float = protocol.HEARTBEAT_SECONDS * 1.5
    # How long a client that must stay away is watched.
    watch: float = 15.0
    # Until a client that pulls legacy offers has pulled.
    optional: float = 5.0
    retry_after: int = 1
    skip_heartbeats: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HubPace:
    """For checks of a hub. `patience` bounds each answer, `work` the arrival of a task that was asked for."""

    patience: float = 10.0
    # A plan that is told to run may wait for the next look at all plans, a minute later.
    work: float = 75.0
    authentication: float = float(protocol.AUTHENTICATION_SECONDS)
    # What a busy hub may add to a time that the protocol names.
    slack: float = 5.0
    revocation: float = 2.0
    at_once: int = 8


CLIENT_PACE: Final = ClientPace()
HUB_PACE: Final = HubPace()
