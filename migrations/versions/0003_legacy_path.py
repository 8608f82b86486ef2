"""1-dispatch: legacy path."""

from migrations.sqlfile import run_sql_concurrently, run_sql_file

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run_sql_file("0003_legacy_path.sql")
    run_sql_concurrently("0003_legacy_path_indexes.sql")
