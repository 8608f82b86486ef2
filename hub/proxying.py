"""One connection's HTTP calls through the desktop's browser: what is to be asked, and what was answered (ADR 0054)."""

import logging
from collections.abc import Sequence
from itertools import islice
from typing import Final
from uuid import UUID

from domain.errors import GivewayError
from domain.hub_port import ClientIdentity, HubBackend
from domain.protocol import ErrorCode, ProxyRequest, ProxyResponse
from domain.proxying import AnswerOutcome, ProxyAnswer
from hub.frames import ack, error_reply
from hub.outgoing import FrameQueue

log = logging.getLogger(__name__)

# Answers that wait for the backend, up to 64 KB each. An honest client has a few.
MOST_ANSWERS: Final = 16
# Calls that are read at a time: up to 256 KB each, and what is read long before it is sent may be over meanwhile.
ASKED_AT_ONCE: Final = 2


class ProxyCalls:
    """Made when a connection first has to do with calls: most never have. `supported`: the client can be asked."""

    __slots__ = ("_answers", "_backend", "_client", "_hints", "_queue", "_supported")

    def __init__(self, backend: HubBackend, client: ClientIdentity, queue: FrameQueue, supported: bool) -> None:
        self._backend = backend
        self._client = client
        self._queue = queue
        self._supported = supported
        self._hints: dict[UUID, None] = {}
        self._answers: list[ProxyResponse] = []

    @property
    def pending(self) -> bool:
        """Something is to be done."""
        return bool(self._hints or self._answers)

    def hint(self, call_id: UUID) -> None:
        """A call waits for this client."""
        self._hints[call_id] = None

    def offered(self, requests: Sequence[ProxyRequest]) -> list[ProxyRequest]:
        """Of a snapshot's calls those that the client gets; one that cannot be asked gets none, and they end."""
        if self._supported:
            return list(requests)
        self._hints |= dict.fromkeys(UUID(request.id) for request in requests)
        return []

    def answered(self, frame: ProxyResponse) -> bool:
        """Take an answer, or reply at once to what is none; False: the client sends more than is taken."""
        if frame.body_by_rest:
            # The whole answer went that way, and had its own reply.
            self._ack(frame)
        elif (fault := _answer_of(frame).fault) is not None:
            self._error(frame, ErrorCode.INVALID_FRAME, fault)
        elif _call_id(frame) is None:
            self._unknown(frame)
        elif len(self._answers) < MOST_ANSWERS:
            self._answers.append(frame)
        else:
            return False
        return True

    async def work(self, epoch: int) -> None:
        """Hand in one answer, else ask for what was hinted at. Raises as the backend does; the hints are kept then."""
        if self._answers:
            await self._hand_in(self._answers.pop(0))
            return
        call_ids = list(islice(self._hints, ASKED_AT_ONCE if self._supported else None))
        if self._supported:
            await self._ask(epoch, call_ids)
        else:
            await self._backend.refuse_proxies(self._client, epoch, call_ids)
        for call_id in call_ids:
            del self._hints[call_id]

    async def _ask(self, epoch: int, call_ids: Sequence[UUID]) -> None:
        # Read when it can be sent: a client that reads slowly is not asked what is over.
        await self._queue.room()
        for request in await self._backend.proxy_requests(self._client, epoch, call_ids):
            await self._queue.room()
            self._queue.put(request)

    async def _hand_in(self, frame: ProxyResponse) -> None:
        call_id = _call_id(frame)
        assert call_id is not None, "checked when it came"
        try:
            outcome = await self._backend.answer_proxy(self._client, call_id, _answer_of(frame))
        except Exception as error:
            # Not kept for later: the client has it, and sends it by REST.
            log.warning("client %s: an answer could not be kept: %r", self._client.client_id, error)
            self._error(frame, _code_of(error), "the answer could not be kept; send it by REST")
            return
        if outcome in (AnswerOutcome.TAKEN, AnswerOutcome.REPEATED):
            self._ack(frame)
        else:
            self._unknown(frame)

    def _unknown(self, frame: ProxyResponse) -> None:
        self._error(frame, ErrorCode.UNKNOWN_REQUEST, "no such request waits for this client's answer")

    def _ack(self, frame: ProxyResponse) -> None:
        self._queue.put(ack(frame.id))

    def _error(self, frame: ProxyResponse, code: ErrorCode, message: str) -> None:
        self._queue.put(error_reply(frame.id, code, message))


def _call_id(frame: ProxyResponse) -> UUID | None:
    try:
        return UUID(frame.ref)
    except ValueError:
        return None


def _answer_of(frame: ProxyResponse) -> ProxyAnswer:
    return ProxyAnswer(
        status=frame.status, headers=frame.headers, body=frame.body, error=frame.error, message=frame.message
    )


def _code_of(error: Exception) -> ErrorCode:
    if isinstance(error, GivewayError):
        return ErrorCode.of(error)
    return ErrorCode.DATABASE_UNAVAILABLE if isinstance(error, OSError | TimeoutError) else ErrorCode.INTERNAL_ERROR
