"""What `giveway parse` says of one file: every key always there, whatever the file holds."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from domain.answers import Answer, AnswerKind, finish_of, platform_of
from domain.readings import Page, Reading, Subject

NOT_READ = "unreadable"


@dataclass(frozen=True, slots=True)
class Report:
    """`shown`: the JSON object. `doubt`: why a person should look at it, which is no part of the object."""

    shown: dict[str, Any]
    was_read: bool
    doubt: str | None = None


def unread(file: str, platform: str | None, error: str) -> Report:
    """A file that could not be opened, or is too large."""
    nothing = Reading(Answer(NOT_READ, AnswerKind.ERROR, error=error), None, (), ())
    return Report({**_shown(file, platform, nothing, Subject()), "wire": None, "finish_reason": None}, was_read=False)


def report_of(file: str, platform: str | None, reading: Reading, subject: Subject) -> Report:
    """What a body says; bytes that are no text count as not read."""
    doubt = reading.parsed.badcase_reason if reading.parsed else None
    return Report(_shown(file, platform, reading, subject), reading.answer.wire != NOT_READ, doubt)


def _shown(file: str, platform: str | None, reading: Reading, subject: Subject) -> dict[str, Any]:
    answer, parsed = reading.answer, reading.parsed
    has_brand = any(name.role == "brand" for name in subject.names)
    return {
        "file": file,
        "platform": platform or platform_of(answer),
        "wire": answer.wire,
        "kind": answer.kind.value,
        "text_chars": len(answer.text),
        "finish_reason": finish_of(answer),
        "search_queries": list(answer.search_queries),
        "citations": _pages(reading.citations),
        "retrieved": _pages(reading.retrieved),
        "mentions": _mentions(reading),
        "absence": reading.absence,
        # A share of what nobody asked for is none.
        "share_of_voice": parsed.share_of_voice if parsed and has_brand else None,
        "confidence": parsed.confidence if parsed else 0.0,
        "error": answer.error,
    }


def _pages(pages: Iterable[Page]) -> list[dict[str, Any]]:
    return [asdict(page) for page in pages]


def _mentions(reading: Reading) -> list[dict[str, Any]]:
    keys = ("name", "role", "count", "first_offset", "position")
    return [{key: getattr(mention, key) for key in keys} for mention in reading.mentions]
