"""Where questions go: one endpoint a platform, read from a file of the operator's (2-desktop §2.4).

Keys stand in neither the file nor an option, where `ps` and backups show them: the file names an environment variable
or another file.
"""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_validator

from domain.errors import InvalidInput

ANY: Final = "*"
_NOT_HERE: Final = frozenset({"key", "api_key", "apikey", "token", "secret"})
_OF_KEYS: Final = frozenset({"authorization", "proxy-authorization", "api-key", "x-api-key", "x-goog-api-key"})
Short = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class EndpointsInvalid(InvalidInput):
    """The endpoints cannot be used; the message names file and entry and says what is expected."""

    code = "endpoints_invalid"


class KeyMissing(InvalidInput):
    """The named environment variable or file holds no key."""

    code = "key_missing"


class Style(StrEnum):
    """Which of the two interfaces an endpoint speaks."""

    CHAT = "chat"
    RESPONSES = "responses"


_PATHS: Final = {Style.CHAT: "/chat/completions", Style.RESPONSES: "/responses"}


class Endpoint(BaseModel):
    """One OpenAI-compatible endpoint. Times in seconds.

    `timeout`: from sending to the last byte. `patience`: how long a rate limit or a failing server is waited for within
    one question. `requests` in `per` seconds: our own limit, for all desktops of the process together.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$")]
    model: Short
    style: Style = Style.CHAT
    # Behind the base address, in place of the style's own; for a gateway that wants another or a query.
    path: Annotated[str, StringConstraints(pattern=r"^/\S*$")] | None = None
    key_env: Short | None = None
    key_file: Path | None = None
    # `Authorization` carries it as a bearer token, any other header bare.
    key_header: Short = "Authorization"
    headers: dict[str, str] = Field(default={}, repr=False)
    body: dict[str, Any] = Field(default={}, repr=False)
    instructions: str | None = None
    stream: bool = False
    timeout: Annotated[float, Field(gt=0, le=1800)] = 180.0
    patience: Annotated[float, Field(ge=0, le=300)] = 30.0
    requests: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    per: Annotated[float, Field(gt=0, le=86_400)] = 60.0

    @model_validator(mode="before")
    @classmethod
    def _holds_no_key(cls, given: Any) -> Any:
        written = _NOT_HERE.intersection(given) if isinstance(given, dict) else ()
        if written:
            raise ValueError(f"`{min(written)}` does not belong here: name a variable (key_env) or a file (key_file)")
        return given

    @model_validator(mode="after")
    def _has_one_key(self) -> "Endpoint":
        if self.key_env is not None and self.key_file is not None:
            raise ValueError("give key_env or key_file, not both")
        return self

    @field_validator("headers")
    @classmethod
    def _carry_no_key(cls, headers: dict[str, str]) -> dict[str, str]:
        carrying = sorted(name for name in headers if name.lower() in _OF_KEYS)
        if carrying:
            raise ValueError(f"`{carrying[0]}` carries a key: use key_header with key_env or key_file")
        return headers

    @field_validator("body")
    @classmethod
    def _leaves_the_question(cls, body: dict[str, Any]) -> dict[str, Any]:
        ours = {"messages", "input", "stream"} & body.keys()
        if ours:
            raise ValueError(f"`{min(ours)}` is set by the driver; use instructions or stream")
        return body

    @property
    def url(self) -> str:
        return self.base_url.rstrip("/") + (self.path or _PATHS[self.style])

    def key(self) -> str | None:
        """The key as it stands now, so that a file may be replaced while the desktop runs. Raises KeyMissing."""
        if self.key_env is not None:
            return _present(os.environ.get(self.key_env), f"set the environment variable {self.key_env}")
        if self.key_file is not None:
            return _present(_text_of(self.key_file), f"put the key into {self.key_file}")
        return None


class Endpoints(BaseModel):
    """Endpoints by platform id; `*` answers for every platform that has none of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    platforms: Annotated[dict[Short, Endpoint], Field(min_length=1)]

    def of(self, platform: str) -> Endpoint | None:
        """The platform's endpoint, else the one for all."""
        return self.platforms.get(platform) or self.platforms.get(ANY)

    def check_keys(self) -> None:
        """Raises KeyMissing for the first endpoint whose key is not there."""
        for endpoint in self.platforms.values():
            endpoint.key()


def load_endpoints(file: Path) -> Endpoints:
    """Read the file (YAML). Raises EndpointsInvalid."""
    try:
        given = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise EndpointsInvalid(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except yaml.YAMLError as error:
        raise EndpointsInvalid(f"{file} is no YAML: {_place(error)}") from error
    return _checked(given, str(file))


def single_endpoint(**fields: Any) -> Endpoints:
    """One endpoint for every platform, from options. Raises EndpointsInvalid."""
    return _checked({"platforms": {ANY: fields}}, "options")


def _checked(given: Any, where: str) -> Endpoints:
    try:
        return Endpoints.model_validate(given)
    except ValidationError as error:
        told = "; ".join(_told(one["loc"], one["msg"]) for one in error.errors(include_url=False, include_input=False))
        # The chained error would quote what was written, and that may be a key.
        raise EndpointsInvalid(f"{where}: {told}") from None


def _told(place: tuple[int | str, ...], message: str) -> str:
    named = ".".join(str(part) for part in place) or "the file"
    return f"{named}: {message.removeprefix('Value error, ')}"


def _place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return str(error).splitlines()[0] if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"


def _present(key: str | None, what_to_do: str) -> str:
    key = (key or "").strip()
    if not key:
        raise KeyMissing(f"there is no key: {what_to_do}")
    if not (key.isascii() and key.isprintable()):
        raise KeyMissing(f"the key has characters that no header can carry: {what_to_do}")
    return key


def _text_of(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
