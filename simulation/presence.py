"""Desktops that go and come back, and what the server makes of it (1-dispatch §1.5, 2-desktop §2.2)."""

from typing import Final

from domain.protocol import HEARTBEAT_SECONDS, LEASE_SECONDS, SILENCE_SECONDS
from simulation.context import Context
from simulation.desks import Desks
from simulation.effects import Effects
from simulation.requests import Requests
from simulation.state import Client, State

DAY: Final = 86_400.0
# A lost connection is shorter than a lease: the desktop goes on working, and posts afterwards.
BLIP_SECONDS: Final = (5.0, 60.0)


class Presence:
    """Absences of every client, from its own stream of random numbers."""

    def __init__(self, context: Context, effects: Effects, desks: Desks, requests: Requests) -> None:
        self._context = context
        self._effects = effects
        self._desks = desks
        self._requests = requests
        self._random = context.random("presence")

    def plan_absence(self, client: Client) -> None:
        """The next time it goes: within the run, and never at a rate of 0."""
        clock, rate = self._context.clock, self._context.load.absences / DAY
        if rate > 0:
            at = clock.now + self._random.expovariate(rate)
            if at < self._context.load.end:
                clock.at(at, self._go, client)

    def _go(self, client: Client) -> None:
        """A lost connection is noticed by its silence; a desktop that quits says so, and its work dies with it."""
        clock, load = self._context.clock, self._context.load
        client.connected = False
        client.epoch += 1
        seen = clock.now - self._random.uniform(0.0, HEARTBEAT_SECONDS)
        clock.at(seen + SILENCE_SECONDS, self._lost, client, client.epoch)
        if self._random.random() < load.blips:
            clock.after(self._random.uniform(*BLIP_SECONDS), self._come_back, client)
            return
        client.online = False
        self._context.publish(client)
        for attempt in client.held:
            attempt.dead = attempt.state is not State.QUEUED
        clock.at(seen + LEASE_SECONDS, self._expire, client)
        clock.after(self._random.expovariate(1 / (load.away_minutes * 60)), self._come_back, client)

    def _lost(self, client: Client, epoch: int) -> None:
        """Silent for 30 s: what waits there may go elsewhere, at once."""
        if client.connected or client.epoch != epoch:
            return
        client.online = False
        self._context.publish(client)
        for attempt in [one for one in client.held if one.state is State.QUEUED]:
            self._effects.release(attempt)
        self._requests.unbind(client)
        self._context.wake(client.tenant)

    def _expire(self, client: Client) -> None:
        """The leases of what died with the desktop run out: the attempt counts, and the task goes on elsewhere."""
        for attempt in [one for one in client.held if one.dead]:
            self._context.meters.preempted["lost_with_its_desktop"] += attempt.interrupted_for is not None
            self._effects.fail(attempt, aborted=True)

    def _come_back(self, client: Client) -> None:
        """Connected: the snapshot names what it still has to do."""
        client.connected = client.online = True
        self._context.publish(client)
        self._desks.resume(client)
        for attempt in client.held:
            attempt.arrived = True
        self._desks.begin(client)
        self._context.wake(client.tenant)
        self.plan_absence(client)
