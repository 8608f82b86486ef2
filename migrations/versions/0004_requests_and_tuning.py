"""1-dispatch: requests and tuning."""

from migrations.sqlfile import run_sql_concurrently, run_sql_file

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run_sql_file("0004_requests_and_tuning.sql")
    run_sql_concurrently("0004_requests_and_tuning_indexes.sql")
