"""What becomes of an endpoint's last word (ADR 0052).

An answer is posted as it came; ingest judges it. So is an error body that the answer readers know as one, unless it
refuses our key: it may quote it. What nobody could read behind an HTTP status is a failure with a stable code.
"""

import codecs
from typing import Final

from desktop.driver import Answer, DriverFailure
from desktop.openai.asking import BUSY, Received
from desktop.openai.logins import LOGIN_REQUIRED
from domain.answers import AnswerKind, read_answer

REFUSED_KEY: Final = frozenset({401, 403})
SHORT: Final = 100


def refuses_key(received: Received) -> bool:
    """Whether the status is about who asks, not about what is asked: some filters answer 403 as well."""
    return received.status in REFUSED_KEY and read_answer(received.body).kind is not AnswerKind.REFUSAL


def answer_of(received: Received, model: str) -> Answer:
    """The answer, or the platform's own error. Raises DriverFailure with the code of the status."""
    if refuses_key(received):
        raise DriverFailure(LOGIN_REQUIRED, f"HTTP {received.status}")
    if not 200 <= received.status < 300 and not _is_known_error(received):
        raise DriverFailure(_code_of(received.status), f"HTTP {received.status}")
    return Answer(
        _text(received),
        content_type=_short(received.headers.get("content-type")),
        model=_short(model),
        request_id=_short(received.request_id),
    )


def _is_known_error(received: Received) -> bool:
    """Whether ingest will see an error in the body by itself; a gateway's page or a bare line is none for sure."""
    read = read_answer(received.body)
    return not read.kind.is_answer and read.wire.startswith("error")


def _code_of(status: int) -> str:
    if status == 429:
        return "rate_limited"
    return "provider_unavailable" if status >= 500 or status in BUSY else "request_refused"


def _text(received: Received) -> str:
    """Decoded as a whole: line ends and a byte order mark are part of what came."""
    try:
        return received.body.decode(_charset(received))
    except UnicodeDecodeError as error:
        if received.whole:
            raise DriverFailure("answer_unreadable", f"not {error.encoding} at byte {error.start}") from error
        # Cut within a character.
        return received.body.decode(_charset(received), "ignore")


def _charset(received: Received) -> str:
    """The charset that the content type names, UTF-8 without one that is known."""
    named = received.headers.get("content-type", "").lower().partition("charset=")[2].split(";")[0].strip(" \"'")
    try:
        return codecs.lookup(named).name if named else "utf-8"
    except LookupError:
        return "utf-8"


def _short(text: str | None) -> str | None:
    return text[:SHORT] if text else None
