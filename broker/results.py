"""Results on their way to ingest (3-results §3.2): the shard by brand-day, the message id is the attempt id."""

from typing import Final

import msgspec

from broker.consumer import Received
from broker.publisher import Headers, Publisher
from broker.topology import INGEST_DEAD_LETTER_EXCHANGE
from domain.errors import BrokerUnavailable
from domain.ids import shard_of
from domain.transport import INGEST_EXCHANGE, ResultMessage

REASON_HEADER: Final = "x-giveway-reason"
SHARD_HEADER: Final = "x-giveway-shard"

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ResultMessage)


async def publish_result(
    publisher: Publisher, message: ResultMessage, ingest_shard_key: str, shards: int, *, timeout: float = 5.0
) -> None:
    """Publish a result; returns once RabbitMQ has it on its shard's queue. Sending it again is harmless.

    Raises BrokerUnavailable. A result without a queue to hold it counts as not published, and has the topology
    declared again.
    """
    routed = await publisher.publish(
        INGEST_EXCHANGE,
        str(shard_of(ingest_shard_key, shards)),
        _encoder.encode(message),
        message_id=message.attempt_id,
        timeout=timeout,
    )
    if not routed:
        await publisher.renew()
        raise BrokerUnavailable("RabbitMQ has no queue for this result; send it again")


def decode_result(body: bytes) -> ResultMessage:
    """Raises msgspec.DecodeError for a body that is no result."""
    return _decoder.decode(body)


async def dead_letter(publisher: Publisher, message: Received, reason: str, shard: int) -> None:
    """Put a poison message on the dead-letter queue with its reason; acknowledge it afterwards.

    (A plain reject also dead-letters, but then the broker writes the reason.) Raises BrokerUnavailable.
    """
    headers: Headers = {REASON_HEADER: reason[:500], SHARD_HEADER: shard}
    routed = await publisher.publish(
        INGEST_DEAD_LETTER_EXCHANGE, "", message.body, message_id=message.message_id, headers=headers
    )
    if not routed:
        await publisher.renew()
        raise BrokerUnavailable("RabbitMQ has no dead-letter queue; it is declared again at the next try")
