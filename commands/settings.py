"""`giveway settings`: the hot settings and the fuses of an installation, straight in its database."""

import asyncio
import getpass
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import orjson
import typer
from rich.table import Table

from commands.common import Json, console, print_json, running_settings

if TYPE_CHECKING:
    from store.database import Connection

app = typer.Typer(no_args_is_help=True, help="Hot settings: budgets, timeouts, pauses; in force at once, everywhere.")

Key = Annotated[str, typer.Argument(help="The setting's name; `giveway settings list` shows them.")]
Value = Annotated[str, typer.Argument(help="A number, a name, or a JSON list.")]

T = TypeVar("T")


@app.command("list")
def list_settings(json: Json = False) -> None:
    """Every hot setting with its default and fuse, and the fuses."""
    from store import ops_settings

    async def read(connection: "Connection") -> dict[str, Any]:
        settings = await ops_settings.list_settings(connection)
        fuses = await ops_settings.list_fuses(connection)
        return {"settings": [asdict(each) for each in settings], "fuses": [asdict(each) for each in fuses]}

    found = _in_transaction(read)
    if json:
        print_json(found)
        return
    console.print(_table("setting", ("value", "default", "fuse", "version", "updated_by"), found["settings"]))
    console.print(_table("fuse", ("value", "default", "updated_by"), found["fuses"]))


def _table(title: str, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None)
    for name in (title, *columns):
        table.add_column(name.replace("_", " "))
    for row in rows:
        cells = [_cell(row[name]) for name in columns]
        table.add_row(row["key"], *cells, style="bold" if row["value"] != row["default"] else "")
    return table


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(value) or "none" if isinstance(value, list | tuple) else str(value)


@app.command("get")
def get_setting(key: Key, json: Json = False) -> None:
    """One hot setting."""
    from store.ops_settings import read_setting

    found = asdict(_in_transaction(lambda connection: read_setting(connection, key)))
    if json:
        print_json(found)
    else:
        console.print(_cell(found["value"]))


@app.command("set")
def set_setting(key: Key, value: Value, json: Json = False) -> None:
    """Change a hot setting; refused over its fuse."""
    from store.ops_settings import read_setting
    from store.settings import write_dispatch_setting

    async def write(connection: "Connection") -> dict[str, Any]:
        await write_dispatch_setting(connection, key, _parse(value), actor=_actor())
        return asdict(await read_setting(connection, key))

    found = _in_transaction(write)
    if json:
        print_json(found)
    else:
        console.print(f"{key} is {_cell(found['value'])}, version {found['version']}")


@app.command("fuse")
def set_fuse(
    key: Key,
    value: Annotated[float, typer.Argument(help="The new ceiling.")],
    force: Annotated[bool, typer.Option("--force", help="Do not ask: the ceiling is there for a reason.")] = False,
    json: Json = False,
) -> None:
    """Change a fuse of this installation: the ceiling that no setting passes, whoever sets it."""
    from store.settings import write_fuse

    if not force and not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to confirm on; say --force")
    if not force:
        typer.confirm(f"{key} protects what is behind the dispatcher. Change it to {value:g}?", abort=True)

    async def write(connection: "Connection") -> None:
        await write_fuse(connection, key, value, actor=_actor())

    _in_transaction(write)
    if json:
        print_json({"key": key, "value": value})
    else:
        console.print(f"the fuse {key} is {value:g}")


def _parse(text: str) -> Any:
    """JSON where it is some, else the text itself: names need no quotes."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _actor() -> str:
    return f"cli:{getpass.getuser()}"


def _in_transaction(work: "Callable[[Connection], Awaitable[T]]") -> T:
    from store.database import open_pool, transaction

    async def run() -> T:
        pool = await open_pool(running_settings().database_url, size=1, name="giveway-settings")
        try:
            async with transaction(pool) as connection:
                return await work(connection)
        finally:
            await pool.close()

    return asyncio.run(run())
