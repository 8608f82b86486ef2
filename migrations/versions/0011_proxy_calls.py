"""2-desktop §2.1: HTTP calls through a desktop's browser."""

from migrations.sqlfile import run_sql_file

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    run_sql_file("0011_proxy_calls.sql")
