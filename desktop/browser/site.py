"""A site adapter: how one chat site is asked, as one file says it (docs/reference/site-adapter.md).

Everywhere the same rule: within one entry all that is given must hold, of a list of entries one is enough.
"""

import re
from typing import Annotated, Final, Literal, Self
from urllib.parse import urljoin, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

DEFAULT_TYPES: Final = {"html": "text/html", "text": "text/plain"}


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return pattern


def _is_web(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a whole address, http:// or https://")
    if parts.username is not None:
        raise ValueError("must not hold a user name or a password: use `giveway desktop login`")
    return url


Pattern = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_compiles)]
Selector = Annotated[str, Field(min_length=1, max_length=1000)]
Code = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{2,39}$")]
Seconds = Annotated[float, Field(gt=0, le=1800)]
Milliseconds = Annotated[int, Field(ge=0, le=60_000)]


class Part(BaseModel):
    """Base: an unknown key is an error, since it is most likely a misspelt one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def given(self) -> frozenset[str]:
        """The keys with a value."""
        return frozenset(name for name in type(self).model_fields if getattr(self, name) not in (None, False))


class Sign(Part):
    """What can be seen on a page. `status`: of the page itself; `answer_status`: of the answer's request."""

    url: Pattern | None = None
    title: Pattern | None = None
    selector: Selector | None = None
    text: Pattern | None = None
    status: list[int] | None = None
    answer_status: list[int] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.given() & Sign.model_fields.keys():
            raise ValueError(f"give at least one of {', '.join(Sign.model_fields)}")
        return self


class ErrorSign(Sign):
    """A sign that the site failed; `code` is the failure's stable code."""

    code: Code


class Step(Part):
    """One thing to do; `optional`: skip it where its element is not there."""

    click: Selector | None = None
    press: str | None = None
    goto: str | None = None
    wait_for: Selector | None = None
    wait_gone: Selector | None = None
    optional: bool = False

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        _exactly_one(self, "click", "press", "goto", "wait_for", "wait_gone")
        return self


class Login(Part):
    """What says that somebody is signed in, and what says that somebody should."""

    signed_in: Annotated[list[Sign], Field(min_length=1)]
    required: list[Sign] = []


class Input(Part):
    """Where the question goes. `type` presses keys, `delay_ms` apart; `fill` sets the text at once."""

    selector: Selector
    how: Literal["fill", "type"] = "fill"
    delay_ms: Annotated[int, Field(ge=0, le=500)] = 0


class Submit(Part):
    """A click or a key, never both: a question is sent once."""

    click: Selector | None = None
    key: str | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        _exactly_one(self, "click", "key")
        return self


class Finished(Part):
    """What says that the whole answer is there."""

    gone: Selector | None = None
    visible: Selector | None = None
    stable_ms: Annotated[int, Field(ge=200, le=60_000)] | None = None
    request_ended: Literal[True] | None = None
    quiet_url: Pattern | None = None
    quiet_ms: Milliseconds = 500

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.given() - {"quiet_ms"}:
            raise ValueError("give at least one of gone, visible, stable_ms, request_ended, quiet_url")
        return self


class Taken(Part):
    """Where the answer is, and what of it is the raw answer."""

    selector: Selector | None = None
    request: Pattern | None = None
    take: Literal["html", "text", "response"] = "html"
    content_type: Annotated[str, Field(max_length=100)] | None = None
    model: Selector | None = None
    finished: Annotated[list[Finished], Field(min_length=1)]

    @model_validator(mode="after")
    def _has_what_it_takes(self) -> Self:
        if self.take == "response" and self.request is None:
            raise ValueError("take: response needs request, a pattern of the address that the answer comes from")
        if self.take != "response" and self.selector is None:
            raise ValueError(f"take: {self.take} needs selector")
        return self


class Timeouts(Part):
    """Seconds a phase may take; `human`: how long a login or a human check waits for a person."""

    prepare: Seconds = 60.0
    navigate: Seconds = 45.0
    sign_in: Seconds = 30.0
    input: Seconds = 60.0
    submit: Seconds = 30.0
    answer: Seconds = 180.0
    parse: Seconds = 30.0
    human: Seconds | None = None


class Site(Part):
    """One chat site, whole."""

    version: Literal[1]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    platforms: Annotated[list[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]], Field(min_length=1)]
    start_url: Annotated[str, AfterValidator(_is_web)]
    login: Login
    human_check: list[Sign] = []
    blocked: list[Sign] = []
    dismiss: list[Selector] = []
    new_conversation: list[Step] = []
    input: Input
    submit: Submit
    answer: Taken
    errors: list[ErrorSign] = []
    # Paths, from their start, that the server may call through a page; none without it.
    calls: list[Pattern] = []
    # Paths, from their start, of pages that the server may have opened for a call; the start page always.
    call_pages: list[Pattern] = []
    timeouts: Timeouts = Timeouts()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        needs_request = any(one.request_ended for one in self.answer.finished)
        needs_request |= any(one.answer_status for one in self.errors)
        if needs_request and self.answer.request is None:
            raise ValueError("request_ended and answer_status need answer.request, the pattern of the answer's address")
        if self.answer.selector is None and any(one.stable_ms for one in self.answer.finished):
            raise ValueError("stable_ms needs answer.selector")
        return self

    def address(self, where: str) -> str:
        """An address of a step, which may be relative to `start_url`."""
        return urljoin(self.start_url, where)


def _exactly_one(part: Part, *names: str) -> None:
    if len(part.given() & set(names)) != 1:
        raise ValueError(f"give exactly one of {', '.join(names)}")
