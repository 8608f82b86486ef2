"""Frames in and out: what is refused and how, and the pages of a snapshot.

No JSON object, or one without a type: close 4502. Unknown type: close 4503. Over 64 KB: close 4504. A known type with
wrong fields: an `error` frame with code `invalid_frame`; the connection stays open.
"""

from collections.abc import Iterator, Sequence
from typing import Final, get_args

import msgspec

from domain.hub_port import SnapshotContent
from domain.ids import new_uuid
from domain.protocol import (
    SNAPSHOT_PAGE,
    AnyClientFrame,
    CloseCode,
    ErrorCode,
    ErrorFrame,
    HeldTask,
    ProxyRequest,
    ServerAck,
    Snapshot,
    TaskAvailable,
    TaskControl,
    decode_client_frame,
    holds_nul,
)
from telemetry.metrics import hub_frames_in

# Leaves room for the page's own fields below the 64 KB of a frame.
PAGE_BYTES: Final = 56 * 1024

_TYPES: Final = frozenset(frame.__struct_config__.tag for frame in get_args(AnyClientFrame))


class _Envelope(msgspec.Struct):
    type: str
    id: str | None = None


_envelopes = msgspec.json.Decoder(_Envelope)


class FrameRefused(Exception):
    """A frame that is not followed. `close`: the code to close with; None answers with an error frame to `ref`."""

    def __init__(self, reason: str, close: CloseCode | None = None, ref: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.close = close
        self.ref = ref


def parse_client_frame(data: str | bytes) -> AnyClientFrame:
    """The frame, checked; raises FrameRefused."""
    if isinstance(data, bytes):
        raise FrameRefused("text frames only", CloseCode.MALFORMED_FRAME)
    try:
        envelope = _envelopes.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FrameRefused("not a JSON object with a type", CloseCode.MALFORMED_FRAME) from error
    if envelope.type not in _TYPES:
        raise FrameRefused("unknown type", CloseCode.UNKNOWN_TYPE)
    hub_frames_in.add(1, envelope.type)
    try:
        frame = decode_client_frame(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FrameRefused(str(error), ref=envelope.id) from error
    # A database would choke on it, and one client's bad beat must not spoil the statement it is folded into.
    if holds_nul(data):
        raise FrameRefused("the character U+0000 is not allowed", ref=envelope.id)
    return frame


def ack(ref: str) -> ServerAck:
    """The reply to a command that has no other."""
    return ServerAck(id=str(new_uuid()), ref=ref)


def error_reply(ref: str | None, code: ErrorCode, message: str) -> ErrorFrame:
    """The reply to a command that could not be followed."""
    return ErrorFrame(id=str(new_uuid()), ref=ref, code=code, message=message)


Item = TaskAvailable | TaskControl | HeldTask | ProxyRequest


def snapshot_pages(content: SnapshotContent, ref: str | None, epoch: int) -> Iterator[Snapshot]:
    """The snapshot as frames of at most SNAPSHOT_PAGE items and 64 KB (an item that is larger goes alone)."""
    pages = list(_paged([*content.held, *content.controls, *content.available, *content.proxies])) or [[]]
    for number, items in enumerate(pages):
        yield Snapshot(
            id=str(new_uuid()),
            ref=ref,
            page=number,
            last=number == len(pages) - 1,
            connection_epoch=epoch,
            generation=content.generation,
            held=[item for item in items if isinstance(item, HeldTask)],
            controls=[item for item in items if isinstance(item, TaskControl)],
            available=[item for item in items if isinstance(item, TaskAvailable)],
            proxies=[item for item in items if isinstance(item, ProxyRequest)],
        )


def _paged(items: Sequence[Item]) -> Iterator[list[Item]]:
    page: list[Item] = []
    size = 0
    for item in items:
        length = len(msgspec.json.encode(item))
        if page and (len(page) == SNAPSHOT_PAGE or size + length > PAGE_BYTES):
            yield page
            page, size = [], 0
        page.append(item)
        size += length
    if page:
        yield page
