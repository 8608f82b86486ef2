"""The tables of 1-dispatch §1.1 and 3-results §3.1."""

from migrations.sqlfile import run_sql_file

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_sql_file("0001_dispatch_domain_and_fact_tables.sql")
