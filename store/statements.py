"""Loads the named statements of `store/sql/*.sql`.

A statement starts with `-- name: the_name`, then comment lines that say why, then one SQL statement.
"""

import re
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

FOLDER: Final = Path(__file__).parent / "sql"
HEADER: Final = re.compile(r"^-- name: ([a-z][a-z0-9_]*)$", re.MULTILINE)


@cache
def statements(file: str) -> MappingProxyType[str, str]:
    """The statements of one file by name; a name given twice is an error."""
    parts = HEADER.split((FOLDER / f"{file}.sql").read_text(encoding="utf-8"))
    names, bodies = parts[1::2], parts[2::2]
    if len(set(names)) != len(names):
        raise ValueError(f"store/sql/{file}.sql names a statement twice")
    return MappingProxyType({name: body.strip() for name, body in zip(names, bodies, strict=True)})
