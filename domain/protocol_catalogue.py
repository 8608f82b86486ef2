"""Every code of the desktop protocol, what it means and what a client does then (2-desktop §2.1, §2.2).

The one place: the hub and the API refuse with these, docs/protocol prints these tables, a client library can read them
as `docs/protocol/schemas/catalogue.json`. Close codes 4400–4499 and those of the WebSocket standard say connect again,
4500–4999 do not.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from domain import errors

FINAL_CODES: Final = range(4500, 5000)


class CloseCode(IntEnum):
    """Why the hub closes: 4400–4499 connect again, 4500–4999 do not."""

    INTERNAL_ERROR = 1011
    SERVICE_RESTART = 1012
    SLOW_CONSUMER = 4408
    SERVER_ERROR = 4411
    AUTHENTICATION_TIMEOUT = 4420
    TOO_MANY_FRAMES = 4429
    HUB_FULL = 4430
    UNAUTHENTICATED = 4501
    MALFORMED_FRAME = 4502
    UNKNOWN_TYPE = 4503
    FRAME_TOO_LARGE = 4504
    TOKEN_IN_URL = 4505
    PROTOCOL_VERSION = 4506
    REVOKED = 4508
    REPLACED = 4509

    @property
    def reconnect(self) -> bool:
        """Whether the client is to connect again."""
        return may_reconnect(self)


def may_reconnect(code: int) -> bool:
    """Whether a client connects again after this close code; also true of codes that nobody here uses."""
    return code not in FINAL_CODES


class ErrorCode(StrEnum):
    """Why a command was not followed, in an `error` frame. The connection stays open."""

    INVALID_FRAME = "invalid_frame"
    ALREADY_AUTHENTICATED = "already_authenticated"
    ALREADY_GREETED = "already_greeted"
    HELLO_REQUIRED = "hello_required"
    UNKNOWN_REQUEST = "unknown_request"
    DATABASE_UNAVAILABLE = errors.DatabaseUnavailable.code
    BROKER_UNAVAILABLE = errors.BrokerUnavailable.code
    INTERNAL_ERROR = errors.GivewayError.code

    @classmethod
    def of(cls, error: errors.GivewayError) -> "ErrorCode":
        """The error's own code where this catalogue has it, else `internal_error`."""
        try:
            return cls(error.code)
        except ValueError:
            return cls.INTERNAL_ERROR


class ProxyError(StrEnum):
    """Why a `proxy_request` got no HTTP answer, in a `proxy_response` frame (4-automation)."""

    PAGE_PAUSED = "page_paused"
    NO_PAGE = "no_page"
    TIMEOUT = "timeout"
    NETWORK_ERROR = "network_error"
    BODY_TOO_LARGE = "body_too_large"
    ADDRESS_REFUSED = "address_refused"
    UNSUPPORTED_PLATFORM = "unsupported_platform"
    UNSUPPORTED_REQUEST = "unsupported_request"


class Call(StrEnum):
    """The REST calls of a desktop, and its registration by a user."""

    REGISTER = "register"
    LEASE = "lease"
    START = "start"
    EXTEND = "extend"
    CANCEL = "cancel"
    INTERRUPT_ACK = "interrupt-ack"
    RESULT = "result"
    PROXY = "proxy"


EVERY_CALL: Final = tuple(Call)
DEVICE_CALLS: Final = tuple(call for call in Call if call is not Call.REGISTER)
TASK_CALLS: Final = tuple(call for call in DEVICE_CALLS if call not in (Call.LEASE, Call.PROXY))


@dataclass(frozen=True, slots=True)
class HandshakeRefusal:
    """An HTTP status instead of the handshake; nothing that a close code could say."""

    status: int
    when: str
    then: str


@dataclass(frozen=True, slots=True)
class Closing:
    """A close code. `when` the hub sends it; `then`: what the client does."""

    code: CloseCode
    when: str
    then: str


@dataclass(frozen=True, slots=True)
class CommandError:
    """The code of an `error` frame."""

    code: ErrorCode
    when: str
    then: str


@dataclass(frozen=True, slots=True)
class ProxyFailure:
    """The code of a `proxy_response` without an HTTP status. `retry`: the server tries again later."""

    code: ProxyError
    retry: bool
    when: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A REST answer that is no success. `repeat`: the same call is to be sent again."""

    status: int
    code: str
    calls: tuple[Call, ...]
    repeat: bool
    when: str
    then: str


# Often a proxy in between that does not pass WebSockets on.
_NO_WEBSOCKET: Final = "connect again; look at the client, and at what stands in between"

HANDSHAKE_REFUSALS: Final = (
    HandshakeRefusal(400, "a broken WebSocket handshake", _NO_WEBSOCKET),
    HandshakeRefusal(404, "another path than `/api/desktop/ws`", "connect again; look at the address"),
    HandshakeRefusal(405, "another method than GET", _NO_WEBSOCKET),
    HandshakeRefusal(426, "no WebSocket handshake", _NO_WEBSOCKET),
    HandshakeRefusal(
        431,
        "request line and headers are over 16 KB",
        "connect again after `Retry-After` seconds, with fewer headers",
    ),
    HandshakeRefusal(
        503,
        "too many connections wait for their authentication, or the hub stops",
        "connect again, after `Retry-After` seconds if it is there",
    ),
    HandshakeRefusal(505, "another HTTP version than 1.1", _NO_WEBSOCKET),
)

CLOSINGS: Final = (
    Closing(
        CloseCode.INTERNAL_ERROR,
        "no pong came in time, or the hub failed",
        "connect again",
    ),
    Closing(
        CloseCode.SERVICE_RESTART,
        "the hub stops or restarts",
        "connect again; work goes on meanwhile",
    ),
    Closing(
        CloseCode.SLOW_CONSUMER,
        "over 256 frames or 1 MB wait because the client does not read",
        "connect again; read frames apart from the work, so that reading never waits for it",
    ),
    Closing(
        CloseCode.SERVER_ERROR,
        "the token could not be checked now",
        "connect again",
    ),
    Closing(
        CloseCode.AUTHENTICATION_TIMEOUT,
        "no token within 5 s of the connection, or no hello within 5 s of the token",
        "connect again; send `hello` at once",
    ),
    Closing(
        CloseCode.TOO_MANY_FRAMES,
        "the client sends frames faster than the hub takes them",
        "connect again with back-off; send heartbeats every 10 s and `sync` only when needed",
    ),
    Closing(
        CloseCode.HUB_FULL,
        "this instance has no room for another connection",
        "connect again with back-off; another instance behind the address may have room",
    ),
    Closing(
        CloseCode.UNAUTHENTICATED,
        "no, an unknown, a replaced or a revoked token; the first frame was not `authenticate`",
        "stop; a person gives it its new token, or registers the desktop again",
    ),
    Closing(
        CloseCode.MALFORMED_FRAME,
        "no JSON object with a text `type`, a binary frame, no UTF-8, or no WebSocket frame at all",
        "stop; the client has a fault",
    ),
    Closing(
        CloseCode.UNKNOWN_TYPE,
        "a `type` that the negotiated version has not",
        "stop; the client has a fault",
    ),
    Closing(
        CloseCode.FRAME_TOO_LARGE,
        "a message of the client is over 64 KB",
        "stop; the client has a fault",
    ),
    Closing(
        CloseCode.TOKEN_IN_URL,
        "the address has a query string",
        "stop; send the token in the header or in `authenticate`",
    ),
    Closing(
        CloseCode.PROTOCOL_VERSION,
        "no version that the hub speaks was offered, or `hello` names another than the negotiated one;"
        " the reason names those that the hub speaks",
        "stop; the client or the hub is too old",
    ),
    Closing(
        CloseCode.REVOKED,
        "the token was revoked, or replaced by a new one, while connected",
        "stop; drop what waits and runs, keep results that were not accepted: a new token can send them",
    ),
    Closing(
        CloseCode.REPLACED,
        "a newer connection with the same token",
        "stop; the same desktop runs twice",
    ),
)

COMMAND_ERRORS: Final = (
    CommandError(
        ErrorCode.INVALID_FRAME,
        "a known type with wrong fields or values out of bounds, or U+0000 in the text",
        "do not send the same again; the client has a fault",
    ),
    CommandError(
        ErrorCode.ALREADY_AUTHENTICATED,
        "`authenticate` on a connection that has its client",
        "go on",
    ),
    CommandError(
        ErrorCode.ALREADY_GREETED,
        "a second `hello`",
        "send `sync` for a snapshot",
    ),
    CommandError(
        ErrorCode.HELLO_REQUIRED,
        "`sync` or `proxy_response` before the snapshot that answers `hello`",
        "wait for that snapshot",
    ),
    CommandError(
        ErrorCode.UNKNOWN_REQUEST,
        "`proxy_response` to a request that has timed out, or was never sent to this client",
        "go on",
    ),
    CommandError(
        ErrorCode.DATABASE_UNAVAILABLE,
        "the snapshot cannot be read, or the `proxy_response` not be kept, now",
        "stay connected: the snapshot follows with `ref` null; send the answer by REST",
    ),
    CommandError(
        ErrorCode.BROKER_UNAVAILABLE,
        "the client cannot be bound to the dispatch exchange now",
        "stay connected: the snapshot follows with `ref` null",
    ),
    CommandError(
        ErrorCode.INTERNAL_ERROR,
        "the hub failed at this command",
        "stay connected: the snapshot follows with `ref` null; send the answer by REST",
    ),
)

PROXY_FAILURES: Final = (
    ProxyFailure(ProxyError.PAGE_PAUSED, True, "a person has paused automation on the page"),
    ProxyFailure(ProxyError.NO_PAGE, True, "no page of the platform is open or can be opened"),
    ProxyFailure(ProxyError.TIMEOUT, True, "the page gave no whole answer within `timeout_ms`"),
    ProxyFailure(ProxyError.NETWORK_ERROR, True, "the page could not reach its server"),
    ProxyFailure(ProxyError.BODY_TOO_LARGE, False, "the answer is over 1 MB"),
    ProxyFailure(ProxyError.ADDRESS_REFUSED, False, "the address is not of the platform's own site"),
    ProxyFailure(ProxyError.UNSUPPORTED_PLATFORM, False, "the client has no page for this platform"),
    ProxyFailure(ProxyError.UNSUPPORTED_REQUEST, False, "the method, a header or the body cannot be sent by a page"),
)


def _refusal(
    error: type[errors.GivewayError], calls: tuple[Call, ...], when: str, then: str, *, repeat: bool | None = None
) -> Refusal:
    again = error.retryable if repeat is None else repeat
    return Refusal(error.http_status, error.code, calls, again, when, then)


_FAULT: Final = "do not repeat it; the client has a fault"

REFUSALS: Final = (
    Refusal(400, "bad_request", EVERY_CALL, True, "the body ended before its announced length", "send it again"),
    Refusal(400, "token_in_query", EVERY_CALL, False, "a token in the query string", _FAULT),
    _refusal(
        errors.Unauthorized,
        EVERY_CALL,
        "no, an unknown, a replaced or a revoked token",
        "stop; a person gives it its new token or registers the desktop again, or signs in again to register",
    ),
    _refusal(
        errors.Forbidden,
        (Call.REGISTER,),
        "the user's role is below operator",
        "ask an operator to register the desktop",
    ),
    _refusal(
        errors.NotFound,
        (Call.REGISTER, *TASK_CALLS, Call.PROXY),
        "no such task or call, or another client's; at registration: no such workspace",
        "drop the task and its result; of `proxy`: drop the answer",
    ),
    _refusal(
        errors.LeaseLost,
        TASK_CALLS,
        "the lease token is not the task's current one, or its lease is over",
        "drop the task; of `result`: drop the result, it is not wanted",
    ),
    _refusal(
        errors.NoSlot,
        (Call.START,),
        "as many tasks run on this client, or on the platform, as may",
        "keep it queued and try again when something ends here, or after a second",
    ),
    _refusal(
        errors.StaleGeneration,
        (Call.CANCEL, Call.INTERRUPT_ACK),
        "the generation is older than that of a task that was started; recorded, not applied",
        "the current order is in the answer, and comes again",
    ),
    _refusal(
        errors.ProxyOver,
        (Call.PROXY,),
        "the call's time is over",
        "drop the answer",
    ),
    _refusal(
        errors.PayloadTooLarge,
        EVERY_CALL,
        "the body is over 1 MB (1,048,576 bytes)",
        "of `result`: send a failure with `error` result_too_large instead; of `proxy`: `error` body_too_large",
    ),
    Refusal(414, "uri_too_long", EVERY_CALL, False, "the query string is over 8 KB", _FAULT),
    Refusal(415, "unsupported_media_type", EVERY_CALL, False, "the body is not announced as application/json", _FAULT),
    Refusal(
        422,
        "malformed_json",
        EVERY_CALL,
        False,
        "not JSON by RFC 8259 (NaN, lone surrogates), U+0000 in a text, or over 64 levels deep",
        "of `result`: send a failure instead; else as invalid_input",
    ),
    _refusal(
        errors.InvalidInput,
        EVERY_CALL,
        "a field is missing, unknown, of a wrong type or out of bounds; `errors` lists up to 50",
        "of `result`: send a failure instead; else drop the task: the client has a fault",
    ),
    _refusal(
        errors.TooManyRequests,
        (Call.REGISTER,),
        "a limit on registrations",
        "again after `Retry-After` seconds",
    ),
    _refusal(
        errors.GivewayError,
        EVERY_CALL,
        "the server failed",
        "the same call again with back-off",
        repeat=True,
    ),
    _refusal(
        errors.BrokerUnavailable,
        (Call.RESULT,),
        "the result could not be made safe",
        "the same call again after `Retry-After` seconds",
    ),
    _refusal(
        errors.DatabaseUnavailable,
        EVERY_CALL,
        "the database does not answer",
        "the same call again after `Retry-After` seconds",
    ),
    Refusal(
        503,
        "keys_unavailable",
        (Call.REGISTER,),
        True,
        "the identity provider's keys cannot be read",
        "the same call again after `Retry-After` seconds",
    ),
)
