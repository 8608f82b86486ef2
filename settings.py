"""Addresses and secrets of one process, from the environment and `.env` (6-operations, Settings).

Hot settings (budgets, timeouts) live in the database: `domain/dispatch_settings.py`.
"""

from functools import lru_cache
from pathlib import Path
from socket import gethostname

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
    # What operators see it as; empty = {host name}:{hub_port}.
    hub_name: str = Field(default="", max_length=100)
    # /metrics, /healthz and /readyz of the hub, at METRICS_HOST; 0: nowhere.
    hub_metrics_port: int = Field(default=0, ge=0, le=65535)
    # Its statements are few and short; sockets hold no connection. Two fewer greet and authenticate at once.
    hub_database_connections: int = Field(default=5, ge=3, le=100)
    # Bounds of one hub (docs/how-to/run-several-hubs.md); seconds, frames a client may send, bytes of a request.
    hub_max_connections: int = Field(default=12_000, ge=1)
    hub_max_pending: int = Field(default=3_000, ge=1)
    hub_handshake_seconds: float = Field(default=10.0, gt=0, le=60)
    hub_authentication_seconds: float = Field(default=5.0, gt=0, le=60)
    hub_header_bytes: int = Field(default=16_384, ge=1_024)
    hub_frames_per_second: float = Field(default=50.0, gt=0)
    hub_frames_burst: int = Field(default=500, ge=1)
    hub_ping_interval: float = Field(default=15.0, gt=0)
    hub_ping_timeout: float = Field(default=15.0, gt=0)
    # The process itself has 10 s from SIGTERM to its end.
    hub_drain_seconds: float = Field(default=8.0, gt=0, le=60)
    hub_drain_closes_per_second: float = Field(default=250.0, gt=0)
    hub_drain_spread_seconds: float = Field(default=4.0, ge=0, le=60)

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

    @property
    def hub_instance(self) -> str:
        """The hub's name among several."""
        return self.hub_name or f"{gethostname()}:{self.hub_port}"


@lru_cache(maxsize=1)
def load_settings() -> Settings:
    """The process's settings, read once."""
    return Settings()
