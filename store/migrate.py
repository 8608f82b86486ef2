"""Brings a database to the newest schema (Alembic with raw SQL, under an advisory lock)."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

FOLDER = Path(__file__).resolve().parent.parent / "migrations"


def _config(database_url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    config.set_main_option("path_separator", "os")
    config.attributes["sqlalchemy_url"] = database_url.replace("postgresql://", "postgresql+psycopg://", 1)
    return config


def migrate(database_url: str) -> str:
    """Upgrade to the newest revision; running it again changes nothing. Returns that revision."""
    config = _config(database_url)
    command.upgrade(config, "head")
    return newest_revision()


def newest_revision() -> str:
    """The revision this code expects."""
    head = ScriptDirectory.from_config(_config("")).get_current_head()
    assert head is not None, "migrations/versions is empty"
    return head
