"""`temporal-dev.yml`, read into frozen values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import yaml

from devstack.errors import ConfigInvalid

REPOSITORY = Path(__file__).resolve().parent.parent
DEFAULT_PATH = REPOSITORY / "temporal-dev.yml"

ATTRIBUTE_TYPES = frozenset({"Text", "Keyword", "Int", "Double", "Bool", "Datetime", "KeywordList"})
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}

Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class TemporalDev:
    """How Temporal runs in development."""

    address: str
    port: int
    ui_port: int
    namespace: str
    retention: timedelta
    log_level: str
    search_attributes: Mapping[str, str]
    dynamic_config: Mapping[str, Scalar]
    sqlite_pragmas: Mapping[str, str]


def load(path: Path = DEFAULT_PATH) -> TemporalDev:
    """The file as values; `ConfigInvalid` names the file and the key that is wrong."""
    raw = _Section(path, _read(path))
    config = TemporalDev(
        address=raw.text("address"),
        port=raw.port("port"),
        ui_port=raw.port("ui_port"),
        namespace=raw.text("namespace"),
        retention=raw.duration("retention"),
        log_level=raw.text("log_level"),
        search_attributes=raw.attributes("search_attributes"),
        dynamic_config=raw.scalars("dynamic_config"),
        sqlite_pragmas={key: str(value) for key, value in raw.scalars("sqlite_pragmas").items()},
    )
    raw.refuse_unread()
    return config


def _read(path: Path) -> dict[str, object]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigInvalid(f"{path} cannot be read: {error.strerror}", "restore it from git") from error
    except yaml.YAMLError as error:
        raise ConfigInvalid(f"{path} is not YAML: {error}", "correct the line named above") from error
    if not isinstance(content, dict):
        raise ConfigInvalid(f"{path} must be a mapping of settings", "restore it from git")
    return {str(key): value for key, value in content.items()}


class _Section:
    """Typed reads that remember what was read, so that a misspelt key is not silently ignored."""

    def __init__(self, path: Path, content: dict[str, object]) -> None:
        self._path = path
        self._content = content
        self._unread = set(content)

    def _take(self, key: str) -> object:
        if key not in self._content:
            raise self._wrong(key, "is missing")
        self._unread.discard(key)
        return self._content[key]

    def _wrong(self, key: str, why: str) -> ConfigInvalid:
        return ConfigInvalid(f"{self._path}: `{key}` {why}", "correct it, or restore the file from git")

    def text(self, key: str) -> str:
        value = self._take(key)
        if not isinstance(value, str) or not value:
            raise self._wrong(key, f"must be a text, not {value!r}")
        return value

    def port(self, key: str) -> int:
        value = self._take(key)
        if type(value) is not int or not 1 <= value <= 65535:
            raise self._wrong(key, f"must be a port from 1 to 65535, not {value!r}")
        return value

    def duration(self, key: str) -> timedelta:
        value = self.text(key)
        match = re.fullmatch(r"(\d+)([mhd])", value)
        if match is None:
            raise self._wrong(key, f"must be a duration such as 72h or 3d, not {value!r}")
        return timedelta(**{_UNITS[match[2]]: int(match[1])})

    def scalars(self, key: str) -> dict[str, Scalar]:
        value = self._take(key)
        if not isinstance(value, dict):
            raise self._wrong(key, "must be a mapping")
        for name, entry in value.items():
            if not isinstance(entry, str | int | float | bool):
                raise self._wrong(f"{key}.{name}", f"must be a plain value, not {entry!r}")
        return {str(name): entry for name, entry in value.items()}

    def attributes(self, key: str) -> dict[str, str]:
        pairs = self.scalars(key)
        for name, kind in pairs.items():
            if kind not in ATTRIBUTE_TYPES:
                raise self._wrong(f"{key}.{name}", f"must be one of {', '.join(sorted(ATTRIBUTE_TYPES))}")
        return {name: str(kind) for name, kind in pairs.items()}

    def refuse_unread(self) -> None:
        for key in sorted(self._unread):
            raise self._wrong(key, "is not a setting")
