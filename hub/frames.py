"""Frames in and out: what is refused and how, and the pages of a snapshot.

No JSON object, or one without a type: close 4502. Unknown type: close 4503. Over 64 KB: close 4504. A known type with
wrong fields: an `error` frame with code `invalid_frame`; the connection stays open.
"""

from collections.abc import Iterator, Sequence
from typing import Final, get_args
from uuid import UUID

import msgspec

from domain.hub_port import SnapshotContent
from domain.ids import new_uuid
from domain.protocol import (
    SNAPSHOT_PAGE,
    AnyClientFrame,
    CloseCode,
    Heartbeat,
    HeldAttempt,
    HeldTask,
    Hello,
    Snapshot,
    Sync,
    TaskAvailable,
    TaskControl,
    decode_client_frame,
)

# Leaves room for the page's own fields below the 64 KB of a frame.
PAGE_BYTES: Final = 56 * 1024
HIGHEST_BIGINT: Final = 2**63 - 1

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
    try:
        frame = decode_client_frame(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FrameRefused(str(error), ref=envelope.id) from error
    if (fault := _fault(data, frame)) is not None:
        raise FrameRefused(fault, ref=envelope.id)
    return frame


def _fault(data: str, frame: AnyClientFrame) -> str | None:
    """What the shape alone does not catch, and a database would choke on."""
    # One client's bad beat must not spoil the statement it is folded into.
    if "\\u0000" in data:
        return "the character U+0000 is not allowed"
    match frame:
        case Hello() | Sync():
            if not 0 <= frame.highest_generation <= HIGHEST_BIGINT:
                return "highest_generation is out of range"
            if isinstance(frame, Hello) and frame.max_concurrent is not None and not 1 <= frame.max_concurrent <= 1000:
                return "max_concurrent is out of range"
            return _held_fault(frame.held)
        case Heartbeat():
            return _held_fault([*frame.running, *frame.queued])
        case _:
            return None


def _held_fault(held: Sequence[HeldAttempt]) -> str | None:
    for attempt in held:
        legacy = attempt.task_id.removeprefix("l-")
        if not (_is_uuid(attempt.task_id) or (legacy != attempt.task_id and legacy.isascii() and legacy.isdigit())):
            return "a held task_id is neither a uuid nor l-{number}"
        if not _is_uuid(attempt.attempt_id):
            return "a held attempt_id is no uuid"
    return None


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


Item = TaskAvailable | TaskControl | HeldTask


def snapshot_pages(content: SnapshotContent, ref: str | None, epoch: int) -> Iterator[Snapshot]:
    """The snapshot as frames of at most SNAPSHOT_PAGE items and 64 KB (an item that is larger goes alone)."""
    pages = list(_paged([*content.held, *content.controls, *content.available])) or [[]]
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
