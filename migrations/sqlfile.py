"""Runs one numbered SQL file of this folder as it stands."""

from pathlib import Path

from alembic import op

FOLDER = Path(__file__).parent


def run_sql_file(name: str) -> None:
    """Send the file's statements in one go: psycopg's simple protocol takes many when there are no parameters."""
    cursor = op.get_bind().connection.cursor()
    cursor.execute((FOLDER / name).read_text(encoding="utf-8"))
    cursor.close()


def run_sql_concurrently(name: str) -> None:
    """The file's statements one by one, outside a transaction: what `create index concurrently` needs.

    A statement ends with `;` at the end of a line. Each must be repeatable: a process killed in between starts anew.
    """
    statements = [part.strip() for part in (FOLDER / name).read_text(encoding="utf-8").split(";\n")]
    with op.get_context().autocommit_block():
        connection = op.get_bind()
        for statement in filter(None, statements):
            connection.exec_driver_sql(statement)
