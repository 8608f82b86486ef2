"""3-results §3.4: all ten projections."""

from migrations.sqlfile import run_sql_concurrently, run_sql_file

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    run_sql_file("0007_projections.sql")
    run_sql_concurrently("0007_projections_indexes.sql")
