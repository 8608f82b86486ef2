"""Runs one numbered SQL file of this folder as it stands."""

from pathlib import Path

from alembic import op

FOLDER = Path(__file__).parent


def run_sql_file(name: str) -> None:
    """Send the file's statements in one go: psycopg's simple protocol takes many when there are no parameters."""
    cursor = op.get_bind().connection.cursor()
    cursor.execute((FOLDER / name).read_text(encoding="utf-8"))
    cursor.close()
