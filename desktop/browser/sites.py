"""Reads site adapters: one file, or a folder of them (2-desktop §2.4)."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from desktop.browser.site import Site
from domain.errors import InvalidInput

MOST_BYTES: Final = 200_000
ENDINGS: Final = (".yaml", ".yml")
SHIPPED: Final = Path(__file__).parent / "sites"


class InvalidSite(InvalidInput):
    """A site adapter that cannot be used; the message names the file, the key and what to do."""

    code = "invalid_site"


def practice_file() -> Path:
    """The adapter of the practice site."""
    return SHIPPED / "practice.yaml"


def template_file() -> Path:
    """A commented adapter to start a new one from."""
    return SHIPPED / "template.yaml"


def load_site(path: Path) -> Site:
    """The adapter in one file. InvalidSite."""
    try:
        return Site.model_validate(_mapping(path))
    except ValidationError as error:
        raise InvalidSite("\n".join(_lines(path, error.errors(include_url=False)))) from None


def load_sites(where: Path) -> Mapping[str, Site]:
    """The adapters of a folder (or of one file) by platform. InvalidSite, also where two name one platform."""
    files = _files(where)
    if not files:
        raise InvalidSite(f"{where}: no site adapter (*.yaml) in this folder; see docs/how-to/add-a-site.md")
    return _by_platform((path, load_site(path)) for path in files)


def _files(where: Path) -> list[Path]:
    if not where.is_dir():
        return [where]
    return sorted(path for path in where.iterdir() if path.suffix in ENDINGS and path.is_file())


def _by_platform(read: Iterable[tuple[Path, Site]]) -> dict[str, Site]:
    sites: dict[str, Site] = {}
    origin: dict[str, Path] = {}
    for path, site in read:
        for platform in site.platforms:
            if platform in sites:
                raise InvalidSite(f"{path}: platforms: {platform} is already in {origin[platform].name}; leave it out")
            sites[platform], origin[platform] = site, path
    return sites


def _mapping(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidSite(f"{path}: cannot be read ({error.strerror}); give the path of a site adapter") from None
    if len(data) > MOST_BYTES:
        raise InvalidSite(f"{path}: over {MOST_BYTES} bytes; a site adapter is a short YAML file")
    try:
        content = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSite(f"{path}: is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise InvalidSite(f"{path}: must be a mapping of keys; start from `giveway desktop site template`")
    return content


def _lines(path: Path, errors: list[ErrorDetails]) -> list[str]:
    return [f"{path}: {_key(error)}: {_what(error)}" for error in errors]


def _key(error: ErrorDetails) -> str:
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"])
    return key.removeprefix(".") or "the file"


def _what(error: ErrorDetails) -> str:
    match error["type"]:
        case "extra_forbidden":
            return "there is no such key; mend its spelling or leave it out (docs/reference/site-adapter.md)"
        case "missing":
            return "is missing; add it (docs/reference/site-adapter.md)"
        case "model_type":
            return "must be a mapping of keys"
        case "value_error":
            return error["msg"].removeprefix("Value error, ")
        case _:
            return error["msg"][:1].lower() + error["msg"][1:]
