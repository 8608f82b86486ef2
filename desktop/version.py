"""The version that desktops report in `hello`: the installed package's, in a checkout that of `pyproject.toml`."""

import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

UNKNOWN: Final = "0"


@cache
def package_version() -> str:
    """For example "0.1.0"; "0" where neither says one."""
    try:
        return version("giveway")
    except PackageNotFoundError:
        return _of_checkout(Path(__file__).parent.parent / "pyproject.toml")


def _of_checkout(project: Path) -> str:
    try:
        table = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
    except (OSError, tomllib.TOMLDecodeError):
        return UNKNOWN
    return str(table.get("version", UNKNOWN))
