"""The yardsticks of ingest: COPY of the same fact rows into the same tables, and row-by-row inserts of them.

Row by row is measured in both readings: each row committed by itself, as a program does that inserts and goes on, and
the rows of one result in a transaction.

The rows are twins of those that ingest wrote, for other questions: the tables only grow, with all their constraints.
They are in memory when the clock starts, as a program's own rows are. The connections are plain ones: our own send
jsonb as text, which COPY cannot.
"""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Final

import asyncpg

from store.database import Connection, Pool
from store.statements import statements

SQL = statements("bench_ingest")

# In the order in which they refer to each other.
TABLES: Final = {
    "question_monitor_runs": "twin_runs",
    "question_monitor_parse_results": "twin_parse_results",
    "monitoring_citation_facts": "twin_citations",
    "monitoring_parse_badcases": "twin_badcases",
}


async def pair_twins(pool: Pool, first: int, last: int, distance: int) -> None:
    """Have the runs of tasks `first` to `last` loaded again as those of the tasks `distance` further on."""
    await pool.execute("truncate bench_twins")
    await pool.execute(SQL["pair_twins"], first, last, distance)


async def copy_rows(database_url: str, count: int, size: int) -> float:
    """Seconds to COPY the twins of `count` runs, `size` runs a transaction, one COPY a table."""
    connection = await asyncpg.connect(database_url)
    try:
        parts = [await _rows(connection, first, min(first + size - 1, count)) for first in range(1, count + 1, size)]
        began = time.perf_counter()
        for part in parts:
            async with connection.transaction():
                for table, rows in part.items():
                    columns = list(rows[0].keys())
                    await connection.copy_records_to_table(table, records=map(tuple, rows), columns=columns)
        return time.perf_counter() - began
    finally:
        await connection.close()


async def insert_rows(database_url: str, first: int, last: int, *, together: bool) -> float:
    """Seconds to insert the twins of runs `first` to `last`, a prepared statement a row.

    `together`: a transaction a run; else each row is committed by itself.
    """
    connection = await asyncpg.connect(database_url)
    try:
        rows = await _rows(connection, first, last)
        inserts = {table: await _prepared(connection, table, found) for table, found in rows.items()}
        by_run = _by_run(rows)
        began = time.perf_counter()
        for records in by_run:
            async with connection.transaction() if together else nullcontext():
                for table, record in records:
                    await inserts[table].fetch(*record)
        return time.perf_counter() - began
    finally:
        await connection.close()


async def _rows(connection: Connection, first: int, last: int) -> dict[str, list[asyncpg.Record]]:
    found = {table: await connection.fetch(SQL[name], first, last) for table, name in TABLES.items()}
    return {table: rows for table, rows in found.items() if rows}


async def _prepared(
    connection: Connection, table: str, rows: Sequence[asyncpg.Record]
) -> "asyncpg.prepared_stmt.PreparedStatement[asyncpg.Record]":
    columns = list(rows[0].keys())
    marks = ", ".join(f"${place}" for place in range(1, len(columns) + 1))
    # Names of our own tables and columns; there is nothing to inject.
    return await connection.prepare(f"insert into {table} ({', '.join(columns)}) values ({marks})")  # noqa: S608


def _by_run(rows: dict[str, list[asyncpg.Record]]) -> list[list[tuple[str, asyncpg.Record]]]:
    """The rows of each run together, the run first."""
    together: dict[int, list[tuple[str, asyncpg.Record]]] = {}
    for table, found in rows.items():
        for row in found:
            together.setdefault(row["id"] if table == "question_monitor_runs" else row["run_id"], []).append(
                (table, row)
            )
    return list(together.values())
