"""What the API's process holds: built once in the lifespan, typed, handed to routes through the request."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from api.auth import TokenVerifier
from api.collect_now import Accept, CollectNowGateway
from api.desktop import ResultPublisher
from api.processes import Processes, TemporalProcesses
from broker.connection import BrokerConnection
from broker.publisher import Publisher
from broker.results import publish_result
from domain.transport import ResultMessage
from settings import Settings
from store.database import Pool, open_pool
from store.listen import Listener
from store.raw_answers import RawAnswers

# A caller is told 503 rather than kept waiting for a database that does not answer.
STATEMENT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class AppState:
    """The resources of one API process."""

    settings: Settings
    verifier: TokenVerifier
    pool: Pool
    listener: Listener
    accept: Accept
    processes: Processes
    broker: BrokerConnection
    publish: ResultPublisher
    raw_answers: RawAnswers


class ShardedPublisher:
    """Publishes results to their brand-day's shard."""

    def __init__(self, publisher: Publisher, shards: int) -> None:
        self._publisher = publisher
        self._shards = shards

    async def __call__(self, message: ResultMessage, shard_key: str) -> None:
        await publish_result(self._publisher, message, shard_key, self._shards)


@asynccontextmanager
async def open_state(settings: Settings) -> AsyncIterator[AppState]:
    """Open everything; broker and Temporal connect at the first need, so that without them reads are still served.

    Raises SettingsRefused, and what asyncpg raises when there is no database.
    """
    async with AsyncExitStack() as stack:
        verifier = TokenVerifier(settings)
        pool = await open_pool(
            settings.database_url,
            size=settings.database_pool_size,
            name="giveway-api",
            command_timeout=STATEMENT_SECONDS,
        )
        stack.callback(pool.terminate)
        listener = await stack.enter_async_context(Listener(settings.database_url))
        broker = await stack.enter_async_context(BrokerConnection(settings.amqp_url, name="giveway-api"))
        publisher = Publisher(broker, shards=settings.ingest_shards, prefix=settings.amqp_prefix)
        client = await Client.connect(
            settings.temporal_address,
            namespace=settings.temporal_namespace,
            data_converter=pydantic_data_converter,
            lazy=True,
        )
        yield AppState(
            settings=settings,
            verifier=verifier,
            pool=pool,
            listener=listener,
            accept=CollectNowGateway(client),
            processes=TemporalProcesses(client),
            broker=broker,
            publish=ShardedPublisher(publisher, settings.ingest_shards),
            raw_answers=RawAnswers(settings.raw_store_url),
        )


def state_of(request: Request) -> AppState:
    """The process's resources, from any request."""
    state: AppState = request.state.giveway
    return state


State = Annotated[AppState, Depends(state_of)]
