"""Dead letters of ingest: how they are written, understood and replayed (3-results §3.2).

Two hands write them: ingest, with its reason in headers of ours, and the broker at its delivery limit, with `x-death`.
A letter keeps its history through replays: when it died first, how often, how often it was replayed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from aio_pika.abc import AbstractIncomingMessage

from broker.consumer import Received
from broker.publisher import Headers, Outcome, Outgoing, Publisher
from broker.topology import INGEST_DEAD_LETTER_EXCHANGE
from domain.errors import BrokerUnavailable
from domain.transport import INGEST_EXCHANGE, ingest_queue

REASON_HEADER: Final = "x-giveway-reason"
SHARD_HEADER: Final = "x-giveway-shard"
# Milliseconds since 1970 of the first death.
FIRST_DIED_HEADER: Final = "x-giveway-first-died-ms"
DEATHS_HEADER: Final = "x-giveway-deaths"
REPLAYS_HEADER: Final = "x-giveway-replays"

MAX_REASON: Final = 500
# Brokers from 4.0 on drop a message after 20 deliveries unless told otherwise, and reading a letter delivers it.
WORN_AFTER: Final = 10
# Of a count in a header; one more is still an AMQP integer.
MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One letter, unacknowledged while its reading lasts.

    `id` is made of its content: the same however often the queue is read, and shared by copies. `shard` and `died_at`
    (the first death) are None where nobody wrote them down. `deaths`: how often it came here. `deliveries`: how often
    it was read before.
    """

    id: str
    message_id: str | None
    reason: str
    shard: int | None
    died_at: datetime | None
    deaths: int
    replays: int
    deliveries: int
    body: bytes
    headers: Mapping[str, Any]
    tag: int

    @property
    def is_worn(self) -> bool:
        """Whether it was delivered so often that a broker might drop it soon."""
        return self.deliveries >= WORN_AFTER


async def dead_letter(publisher: Publisher, message: Received, reason: str, shard: int) -> None:
    """Put a poison message on the dead-letter queue with its reason; acknowledge it afterwards.

    (A plain reject also dead-letters, but then the broker writes the reason.) Raises BrokerUnavailable.
    """
    first = _moment(message.headers.get(FIRST_DIED_HEADER)) or datetime.now(UTC)
    headers: Headers = {
        REASON_HEADER: sound(reason),
        SHARD_HEADER: shard,
        FIRST_DIED_HEADER: _milliseconds(first),
        DEATHS_HEADER: _number(message.headers.get(DEATHS_HEADER)) + 1,
        REPLAYS_HEADER: _number(message.headers.get(REPLAYS_HEADER)),
    }
    routed = await publisher.publish(
        INGEST_DEAD_LETTER_EXCHANGE, "", message.body, message_id=message.message_id, headers=headers
    )
    if not routed:
        await publisher.renew()
        raise BrokerUnavailable("RabbitMQ has no dead-letter queue; it is declared again at the next try")


async def replay(publisher: Publisher, letters: Sequence[tuple[DeadLetter, int]]) -> list[bool]:
    """Publish letters to their shards, in order; which of them RabbitMQ has now. Discard those afterwards.

    A letter published and not discarded is ingested twice, which changes nothing.
    """
    outcomes = await publisher.publish_many([_outgoing(letter, shard) for letter, shard in letters])
    return [outcome is Outcome.ROUTED for outcome in outcomes]


def _outgoing(letter: DeadLetter, shard: int) -> Outgoing:
    headers: dict[str, str | int] = {DEATHS_HEADER: letter.deaths, REPLAYS_HEADER: letter.replays + 1}
    if letter.died_at is not None:
        headers[FIRST_DIED_HEADER] = _milliseconds(letter.died_at)
    return Outgoing(INGEST_EXCHANGE, str(shard), letter.body, letter.message_id, headers)


async def copy_letter(publisher: Publisher, letter: DeadLetter) -> bool:
    """Put the letter on the dead-letter queue again, as it is, with its deliveries forgotten; whether it is there."""
    headers: dict[str, str | int] = {
        name: value for name, value in letter.headers.items() if name.startswith("x-giveway-")
    }
    history: Headers = {REASON_HEADER: letter.reason, DEATHS_HEADER: letter.deaths, REPLAYS_HEADER: letter.replays}
    if letter.shard is not None:
        headers[SHARD_HEADER] = letter.shard
    if letter.died_at is not None:
        headers[FIRST_DIED_HEADER] = _milliseconds(letter.died_at)
    copied = Outgoing(INGEST_DEAD_LETTER_EXCHANGE, "", letter.body, letter.message_id, {**headers, **history})
    return await publisher.publish_many([copied]) == [Outcome.ROUTED]


def read_letter(message: AbstractIncomingMessage, prefix: str) -> DeadLetter:
    """What a message of the dead-letter queue says, whoever put it there, and whatever its headers are."""
    headers: dict[str, Any] = dict(message.headers)
    broker = _by_broker(headers, prefix)
    ours = headers.get(REASON_HEADER)
    reason = broker.reason if ours is None else sound(str(ours))
    died_at = _moment(headers.get(FIRST_DIED_HEADER)) or broker.died_at
    deaths = max(_number(headers.get(DEATHS_HEADER)) + (broker.deaths if ours is None else 0), 1)
    assert message.delivery_tag is not None
    return DeadLetter(
        id=_letter_id(message, reason, died_at, deaths),
        message_id=message.message_id,
        reason=reason,
        shard=broker.shard if ours is None else _optional(headers.get(SHARD_HEADER)),
        died_at=died_at,
        deaths=deaths,
        replays=_number(headers.get(REPLAYS_HEADER)),
        deliveries=_number(headers.get("x-delivery-count")),
        body=message.body,
        headers=headers,
        tag=message.delivery_tag,
    )


@dataclass(frozen=True, slots=True)
class _BrokerDeath:
    """What `x-death` says: the broker's own dead-lettering, with one entry a queue and reason, the newest first."""

    reason: str
    shard: int | None
    died_at: datetime | None
    deaths: int


def _by_broker(headers: Mapping[str, Any], prefix: str) -> _BrokerDeath:
    found = headers.get("x-death")
    entries = [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []
    if not entries:
        return _BrokerDeath("no reason was written down", None, None, 0)
    times = [entry["time"] for entry in entries if isinstance(entry.get("time"), datetime)]
    return _BrokerDeath(
        reason=f"broker: {entries[0].get('reason')} in {entries[0].get('queue')}",
        shard=_shard_of_queue(str(entries[0].get("queue")), prefix),
        died_at=min(times) if times else None,
        deaths=sum(_number(entry.get("count")) for entry in entries),
    )


def _shard_of_queue(queue: str, prefix: str) -> int | None:
    number = queue.removeprefix(prefix + ingest_queue(0)[:-1])
    return int(number) if number.isascii() and number.isdigit() else None


def _letter_id(message: AbstractIncomingMessage, reason: str, died_at: datetime | None, deaths: int) -> str:
    """Twelve hexadecimal digits of what neither a reading nor a copy changes; a letter of the broker's gets headers."""
    first = None if died_at is None else _milliseconds(died_at)
    digest = sha256(f"{message.message_id}\0{reason}\0{first}\0{deaths}\0".encode(errors="replace"))
    digest.update(message.body)
    return digest.hexdigest()[:12]


def sound(text: str) -> str:
    """Text that AMQP and PostgreSQL can hold, of bounded length: an error may quote what the poison is made of."""
    return text[:MAX_REASON].encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _moment(value: object) -> datetime | None:
    """A header's milliseconds since 1970; None where they are none."""
    try:
        return datetime.fromtimestamp(value / 1000, UTC) if isinstance(value, int) and value else None
    except (ValueError, OverflowError, OSError):
        return None


def _number(value: object) -> int:
    return _optional(value) or 0


def _optional(value: object) -> int | None:
    """A header's count, if it can be one: whoever may publish may write anything."""
    return value if isinstance(value, int) and 0 <= value <= MOST else None
