"""Leases for many clients in one call: hints that come while calls are under way go together into the next."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from domain.hub_port import GrantAnswer, GrantRequest, HubBackend

# One call at a time, so that the next takes all that came meanwhile; but one that hangs must not stop everybody, so
# after a while another begins beside it.
CALLS_AT_ONCE: Final = 2
PATIENCE_SECONDS: Final = 0.02
# Keeps a statement short, whatever has piled up.
LARGEST_CALL: Final = 200


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    request: GrantRequest
    answer: "asyncio.Future[GrantAnswer]"


class Granter:
    """Passes requests on to the backend, as many at once as have come."""

    def __init__(self, backend: HubBackend) -> None:
        self._backend = backend
        self._waiting: list[_Asked] = []
        self._callers: set[asyncio.Task[None]] = set()
        self._in_flight = 0

    async def ask(self, request: GrantRequest) -> GrantAnswer:
        """Its answer; raises what the call raised in which it went."""
        asked = _Asked(request, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        if len(self._callers) < CALLS_AT_ONCE:
            caller = asyncio.create_task(self._run(), name="grants")
            self._callers.add(caller)
            caller.add_done_callback(self._callers.discard)
        return await asked.answer

    async def _run(self) -> None:
        while self._waiting:
            if self._in_flight:
                await asyncio.sleep(PATIENCE_SECONDS)
            together, self._waiting = self._waiting[:LARGEST_CALL], self._waiting[LARGEST_CALL:]
            if together:
                await self._call(together)

    async def _call(self, together: Sequence[_Asked]) -> None:
        self._in_flight += 1
        try:
            answers = await self._backend.grant([asked.request for asked in together])
        except Exception as error:
            _fail(together, error)
        else:
            _answer(together, answers)
        finally:
            self._in_flight -= 1


def _answer(together: Sequence[_Asked], answers: Sequence[GrantAnswer]) -> None:
    for asked, answer in zip(together, answers, strict=True):
        # Its connection may have ended meanwhile.
        with suppress(asyncio.InvalidStateError):
            asked.answer.set_result(answer)


def _fail(together: Sequence[_Asked], error: Exception) -> None:
    for asked in together:
        with suppress(asyncio.InvalidStateError):
            asked.answer.set_exception(error)
