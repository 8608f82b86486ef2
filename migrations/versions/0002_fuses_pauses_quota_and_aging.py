"""1-dispatch: fuses pauses quota and aging."""

from migrations.sqlfile import run_sql_concurrently, run_sql_file

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_sql_file("0002_fuses_pauses_quota_and_aging.sql")
    run_sql_concurrently("0002_fuses_pauses_quota_and_aging_indexes.sql")
