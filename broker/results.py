"""Results on their way to ingest (3-results §3.2): the shard by brand-day, the message id is the attempt id."""

import msgspec

from broker.publisher import Publisher
from domain.errors import BrokerUnavailable
from domain.ids import shard_of
from domain.transport import INGEST_EXCHANGE, ResultMessage

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
    try:
        return _decoder.decode(body)
    except RecursionError as error:
        raise msgspec.DecodeError("JSON nested beyond reason") from error
