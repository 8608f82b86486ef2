"""1-dispatch: batches pause and backfill."""

from migrations.sqlfile import run_sql_concurrently, run_sql_file

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    run_sql_file("0005_batches_pause_and_backfill.sql")
    run_sql_concurrently("0005_batches_pause_and_backfill_indexes.sql")
