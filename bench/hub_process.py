"""Our hub as a process of its own, for its benchmark: what `giveway serve --hub` runs, and questions about memory."""

from typing import Any

from bench.hub_child import footprint, run_child, say, serve_questions
from server import running_hub
from settings import Settings


async def _main(given: dict[str, Any]) -> None:
    settings = Settings(
        database_url=given["database_url"], amqp_url=given["amqp_url"], amqp_prefix=given["prefix"],
        ingest_shards=1, hub_host="127.0.0.1", hub_port=0, hub_metrics_port=0,
    )  # fmt: skip
    async with running_hub(settings) as hub:
        say({"port": hub.port})
        await serve_questions({"footprint": footprint})


if __name__ == "__main__":
    run_child(_main)
