"""2-desktop §2.1: the fleet as operators see it."""

from migrations.sqlfile import run_sql_concurrently, run_sql_file

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    run_sql_file("0010_fleet.sql")
    run_sql_concurrently("0010_fleet_indexes.sql")
