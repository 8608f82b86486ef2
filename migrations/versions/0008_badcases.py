"""3-results §3.3: badcases and their labels."""

from migrations.sqlfile import run_sql_concurrently, run_sql_file

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run_sql_file("0008_badcases.sql")
    run_sql_concurrently("0008_badcases_indexes.sql")
