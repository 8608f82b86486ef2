"""Addresses and secrets of one process, from the environment and `.env` (6-operations, Settings).

Hot settings (budgets, timeouts) live in the database: `domain/dispatch_settings.py`.
"""

from functools import lru_cache
from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """One process's configuration; the names are the environment variables'."""

    model_config = SettingsConfigDict(env_file=".env", extra="ignore")

    database_url: str = "postgresql://giveway@127.0.0.1:5432/giveway"
    database_pool_size: int = Field(default=20, ge=2, le=200)
    amqp_url: str = "amqp://guest:guest@127.0.0.1:5672/"
    # Put before every exchange and queue name, so that several installations may share one broker.
    amqp_prefix: str = ""
    temporal_address: str = "127.0.0.1:7233"
    temporal_namespace: str = "giveway"

    api_host: str = "127.0.0.1"
    api_port: int = 8000
    hub_host: str = "127.0.0.1"
    hub_port: int = 8001
    # Prometheus reads the worker's metrics there; 0: nowhere. The API has its own at /metrics.
    metrics_host: str = "127.0.0.1"
    worker_metrics_port: int = Field(default=0, ge=0, le=65535)
    # What desktops are told to connect to; empty = ws://{hub_host}:{hub_port}.
    hub_public_url: str = ""

    raw_store_url: str = Path(".giveway/raw").resolve().as_uri()
    ingest_shards: int = Field(default=8, ge=1, le=64)

    environment: str = "development"
    jwt_dev_key: SecretStr = SecretStr("")
    jwt_audience: str = "giveway"
    jwt_issuer: str = "giveway-dev"
    jwks_url: str = ""

    # A file this process creates once it serves; the supervisor waits for it.
    giveway_ready_file: str = ""

    @property
    def hub_url(self) -> str:
        """The WebSocket address given to desktops at registration."""
        return self.hub_public_url or f"ws://{self.hub_host}:{self.hub_port}/api/desktop/ws"


@lru_cache(maxsize=1)
def load_settings() -> Settings:
    """The process's settings, read once."""
    return Settings()
