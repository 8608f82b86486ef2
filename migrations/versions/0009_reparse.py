"""3-results §3.3: reparse."""

from migrations.sqlfile import run_sql_concurrently, run_sql_file

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    run_sql_file("0009_reparse.sql")
    run_sql_concurrently("0009_reparse_indexes.sql")
