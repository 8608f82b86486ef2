"""The desktop wire protocol `giveway.v1`: frames and close codes (2-desktop §2.1, dispatch §13.2, §13.3).

JSON text frames. Every frame has `type` and `id`; every command of a client gets a reply (`ack`, `snapshot` or
`error`) whose `ref` is the command's id. Unknown fields are ignored, so both sides may add some.
"""

from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, Final

import msgspec

SUBPROTOCOL: Final = "giveway.v1"
PATH: Final = "/api/desktop/ws"
MAX_FRAME_BYTES: Final = 64 * 1024
HEARTBEAT_SECONDS: Final = 10
SILENCE_SECONDS: Final = 30
LEASE_SECONDS: Final = 120
AUTHENTICATION_SECONDS: Final = 5
SNAPSHOT_PAGE: Final = 50


class CloseCode(IntEnum):
    """Why the hub closes: 4400–4499 connect again, 4500–4999 do not."""

    SERVICE_RESTART = 1012
    SLOW_CONSUMER = 4408
    SERVER_ERROR = 4411
    AUTHENTICATION_TIMEOUT = 4420
    UNAUTHENTICATED = 4501
    MALFORMED_FRAME = 4502
    UNKNOWN_TYPE = 4503
    FRAME_TOO_LARGE = 4504
    TOKEN_IN_URL = 4505
    PROTOCOL_VERSION = 4506
    REVOKED = 4508
    REPLACED = 4509


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


class ServerAck(ServerFrame, tag="ack", frozen=True, kw_only=True):
    """Reply to a command that has no other."""

    ref: str


class ErrorFrame(ServerFrame, tag="error", frozen=True, kw_only=True):
    """Reply to a command that could not be followed; the connection stays open."""

    ref: str | None
    code: str
    message: str


AnyServerFrame = TaskAvailable | TaskControl | Snapshot | ServerAck | ErrorFrame


class HeldAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that the client still holds: running, queued locally, or with a result not yet accepted."""

    task_id: str
    attempt_id: str
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
    max_concurrent: int | None = None
    highest_generation: int = 0
    held: list[HeldAttempt] = []
    platform_sessions: dict[str, str] = {}


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

    highest_generation: int = 0
    held: list[HeldAttempt] = []


AnyClientFrame = Authenticate | Hello | Heartbeat | ClientAck | Sync

_encoder = msgspec.json.Encoder()
_client_decoder = msgspec.json.Decoder(AnyClientFrame)
_server_decoder = msgspec.json.Decoder(AnyServerFrame)


def encode(frame: ServerFrame | ClientFrame) -> str:
    """The frame as one JSON text."""
    return _encoder.encode(frame).decode()


def decode_client_frame(text: str | bytes) -> AnyClientFrame:
    """Raises msgspec.ValidationError for a wrong shape or unknown type, DecodeError for no JSON."""
    return _client_decoder.decode(text)


def decode_server_frame(text: str | bytes) -> AnyServerFrame:
    """The desktop's side of `decode_client_frame`."""
    return _server_decoder.decode(text)
