"""1-dispatch: operations."""

from migrations.sqlfile import run_sql_concurrently, run_sql_file

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    run_sql_file("0006_operations.sql")
    run_sql_concurrently("0006_operations_indexes.sql")
