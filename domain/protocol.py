"""The desktop wire protocol `giveway.v1`: its frames (2-desktop §2.1, dispatch §13.2, §13.3).

JSON text frames. Every frame has `type` and `id`; every command of a client gets a reply (`ack`, `snapshot` or
`error`) whose `ref` is the command's id. Unknown fields are ignored, so both sides may add some. The codes are in
`domain/protocol_catalogue.py`, the page for who implements a client is docs/protocol.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from domain.protocol_catalogue import CloseCode as CloseCode
from domain.protocol_catalogue import ErrorCode as ErrorCode
from domain.proxying import MAX_ERROR, MAX_HEADER_NAME, MAX_HEADER_VALUE, MAX_HEADERS, MAX_MESSAGE

SUBPROTOCOL: Final = "giveway.v1"
# The versions that this code speaks, the newest first; a client offers them in this order.
SUPPORTED: Final = (SUBPROTOCOL,)
PATH: Final = "/api/desktop/ws"
MAX_FRAME_BYTES: Final = 64 * 1024
HEARTBEAT_SECONDS: Final = 10
SILENCE_SECONDS: Final = 30
LEASE_SECONDS: Final = 120
AUTHENTICATION_SECONDS: Final = 5
SNAPSHOT_PAGE: Final = 50


# What a client sends is bounded here; a value outside is answered with `invalid_frame`. `(?!\n)`: Python's `$` alone
# would let a newline through.
_UUID: Final = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
HeldTaskId = Annotated[str, Meta(pattern=rf"^({_UUID}|l-[0-9]{{1,19}})$(?!\n)")]
HeldAttemptId = Annotated[str, Meta(pattern=rf"^{_UUID}$(?!\n)")]
Generation = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Slots = Annotated[int, Meta(ge=1, le=1000)]
HttpStatus = Annotated[int, Meta(ge=100, le=599)]
HttpHeaders = Annotated[
    dict[Annotated[str, Meta(max_length=MAX_HEADER_NAME)], Annotated[str, Meta(max_length=MAX_HEADER_VALUE)]],
    Meta(max_length=MAX_HEADERS),
]


class Feature(StrEnum):
    """Abilities beyond the base protocol, named in `hello`; the server sends their frames only to who names them."""

    PROXY = "proxy"


def negotiate(offered: Sequence[str], supported: Sequence[str] = SUPPORTED) -> str | None:
    """The version to speak: the first of the client's offers that the hub knows; None without any.

    The client's order decides: it alone knows which of its versions it would rather not use.
    """
    return next((version for version in offered if version in supported), None)


class Control(StrEnum):
    """What a `task_control` frame orders."""

    INTERRUPT_REQUESTED = "interrupt_requested"
    INTERRUPT_WITHDRAWN = "interrupt_withdrawn"
    CANCELED = "canceled"


class ServerFrame(msgspec.Struct, tag_field="type", frozen=True, kw_only=True, omit_defaults=False):
    """Base of the frames that the hub sends."""

    id: str


class TaskAvailable(ServerFrame, tag="task_available", frozen=True, kw_only=True):
    """A task with its lease (dispatch §13.2 and the lease fields). Times are RFC 3339, UTC.

    `owner` legacy with an empty `lease_token`: an offer. It has no attempt either; the desktop pulls it
    (`POST /api/desktop/tasks/lease`) until `lease_expires_at`.
    """

    kind: str
    task_id: str
    target_client_id: str
    priority: int
    lane: str
    lane_weight: int
    status: str
    scheduler_group_key: str | None
    business_date: str | None
    interrupt_generation: int
    updated_at: datetime
    enqueued_at: datetime
    source: str
    owner: str
    attempt: int
    attempt_id: str
    lease_token: str
    lease_expires_at: datetime
    platform: str
    question: str
    collect_request_id: str | None = None
    payload: dict[str, Any] = {}

    @property
    def is_offer(self) -> bool:
        """Nothing is leased yet."""
        return not self.lease_token


class TaskControl(ServerFrame, tag="task_control", frozen=True, kw_only=True):
    """An order about a task the client has or had (dispatch §13.3)."""

    kind: str
    task_id: str
    target_client_id: str
    control: Control
    reason: str | None
    interrupt_generation: int
    replacement_task_id: str | None
    updated_at: datetime


class HeldTask(msgspec.Struct, frozen=True, kw_only=True):
    """In a snapshot: a task the client said it holds, and what the server thinks of it.

    `valid` false: drop it (its lease is over). A pending interrupt comes as a control of the same snapshot.
    """

    task_id: str
    attempt_id: str
    valid: bool
    lease_expires_at: datetime | None = None
    status: str | None = None


class ProxyRequest(ServerFrame, tag="proxy_request", frozen=True, kw_only=True):
    """Let a page of the platform make an HTTP request of its own site (4-automation). Needs feature `proxy`.

    `url` is absolute or a path of that site; `page_url` names the conversation whose page is to do it, if it matters.
    `id` names the call: it may come several times, also in snapshots, and is made once. `timeout_ms` is what is left of
    the server's patience.
    """

    task_id: str
    platform: str
    method: str
    url: str
    headers: dict[str, str] = {}
    body: str | None = None
    page_url: str | None = None
    timeout_ms: int = 30_000


class Snapshot(ServerFrame, tag="snapshot", frozen=True, kw_only=True):
    """Everything the client should know, in pages; `last` closes it. `ref` names the hello or sync it answers."""

    ref: str | None
    page: int
    last: bool
    connection_epoch: int
    generation: int
    available: list[TaskAvailable] = []
    controls: list[TaskControl] = []
    held: list[HeldTask] = []
    proxies: list[ProxyRequest] = []


class ServerAck(ServerFrame, tag="ack", frozen=True, kw_only=True):
    """Reply to a command that has no other."""

    ref: str


class ErrorFrame(ServerFrame, tag="error", frozen=True, kw_only=True):
    """Reply to a command that could not be followed; the connection stays open."""

    ref: str | None
    code: str
    message: str


AnyServerFrame = TaskAvailable | TaskControl | Snapshot | ServerAck | ErrorFrame | ProxyRequest


class HeldAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that the client still holds: running, queued locally, or with a result not yet accepted."""

    task_id: HeldTaskId
    attempt_id: HeldAttemptId
    phase: str | None = None
    # queued | running | posting
    state: str = "running"


class ClientFrame(msgspec.Struct, tag_field="type", frozen=True, kw_only=True):
    """Base of the frames that a client sends."""

    id: str


class Authenticate(ClientFrame, tag="authenticate", frozen=True, kw_only=True):
    """First frame of a client that cannot set headers."""

    token: str


class Hello(ClientFrame, tag="hello", frozen=True, kw_only=True):
    """First frame after authentication; answered by a snapshot."""

    protocol: str = SUBPROTOCOL
    version: str = "0"
    max_concurrent: Slots | None = None
    highest_generation: Generation = 0
    held: list[HeldAttempt] = []
    platform_sessions: dict[str, str] = {}
    features: list[str] = []


class Heartbeat(ClientFrame, tag="heartbeat", frozen=True, kw_only=True):
    """Every 10 s: what runs, with phases, what waits locally, login health by platform. Extends every lease listed."""

    running: list[HeldAttempt] = []
    queued: list[HeldAttempt] = []
    platform_sessions: dict[str, str] = {}
    healthy: bool = True


class ClientAck(ClientFrame, tag="ack", frozen=True, kw_only=True):
    """Receipt of a server frame."""

    ref: str


class Sync(ClientFrame, tag="sync", frozen=True, kw_only=True):
    """Asks for a snapshot at any time."""

    highest_generation: Generation = 0
    held: list[HeldAttempt] = []


class ProxyResponse(ClientFrame, tag="proxy_response", frozen=True, kw_only=True):
    """What became of the `proxy_request` that `ref` names: an HTTP answer of any status, or `error` (ProxyError).

    `body_by_rest`: the frame would be over 64 KB, so the whole answer went by REST before it.
    """

    ref: str
    status: HttpStatus | None = None
    headers: HttpHeaders = {}
    body: str | None = None
    body_by_rest: bool = False
    error: Annotated[str, Meta(max_length=MAX_ERROR)] | None = None
    message: Annotated[str, Meta(max_length=MAX_MESSAGE)] | None = None


AnyClientFrame = Authenticate | Hello | Heartbeat | ClientAck | Sync | ProxyResponse

# An escape that follows an even number of backslashes: after an odd one the text itself speaks of it.
_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")

_encoder = msgspec.json.Encoder()
_client_decoder = msgspec.json.Decoder(AnyClientFrame)
_server_decoder = msgspec.json.Decoder(AnyServerFrame)


def encode(frame: ServerFrame | ClientFrame) -> str:
    """The frame as one JSON text."""
    return encode_bytes(frame).decode()


def encode_bytes(frame: ServerFrame | ClientFrame) -> bytes:
    """The same in UTF-8, for who sends it as it is."""
    return _encoder.encode(frame)


def holds_nul(text: str) -> bool:
    """Whether a text of this JSON holds the character U+0000, which no database stores."""
    return "\\u0000" in text and _NUL.search(text) is not None


def decode_client_frame(text: str | bytes) -> AnyClientFrame:
    """Raises msgspec.ValidationError for a wrong shape or unknown type, DecodeError for no JSON."""
    return _client_decoder.decode(text)


def decode_server_frame(text: str | bytes) -> AnyServerFrame:
    """The desktop's side of `decode_client_frame`."""
    return _server_decoder.decode(text)
