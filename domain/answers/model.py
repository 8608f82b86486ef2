"""What an answer of an AI platform says, whatever its wire format (3-results §3.3, §3.6)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class AnswerKind(StrEnum):
    """How a body ended. Only the first two are answers; the rest are *missing*, not "no mention"."""

    ANSWER = "answer"
    TRUNCATED = "truncated"  # text cut by the length limit: still an answer, flagged
    UNFINISHED = "unfinished"  # paused turn, pending tool call, or a stream without its end
    REFUSAL = "refusal"  # the model or the platform's filter declined
    TOOL_CALL_ONLY = "tool_call_only"
    SEARCH_ONLY = "search_only"  # search results without an answer
    EMPTY = "empty"
    BLOCKED = "blocked"  # a bot challenge or a login page stands in the way
    RATE_LIMITED = "rate_limited"
    ERROR = "error"  # the platform failed, or the body cannot be read

    @property
    def is_answer(self) -> bool:
        return self in (AnswerKind.ANSWER, AnswerKind.TRUNCATED)


class Source(NamedTuple):
    """One cited or retrieved page. `url` is None for supplied documents and for entries the platform left bare."""

    url: str | None
    title: str | None = None
    site_name: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, read.

    `citations` are in the platform's order with duplicates; `retrieved` is a second list of search results, where the
    format has one. `text` excludes reasoning, and holds neither NUL nor lone surrogates (each became U+FFFD), because
    PostgreSQL text cannot. `error` is a short reason, set exactly when `kind` is no answer. `text` may then still hold
    what had come of an unfinished answer, so that its length can be recorded; nobody parses or stores it, and whoever
    looks into the case reads the stored raw body. `finish_reason` is as the platform wrote it. `platform` is set only
    where something else than wire and model tells it: see `platform_of`.
    """

    wire: str
    kind: AnswerKind
    text: str = ""
    citations: tuple[Source, ...] = ()
    retrieved: tuple[Source, ...] = ()
    search_queries: tuple[str, ...] = ()
    model: str | None = None
    finish_reason: str | None = None
    request_id: str | None = None
    error: str | None = None
    platform: str | None = None


def finish_of(answer: Answer) -> str | None:
    """How the answer ended: the platform's own word, else ours for a body without an answer.

    `blocked` is a page or a filter in the way, `error` a failure or a refused call. None: the format has no such word.
    """
    if answer.finish_reason is not None:
        return answer.finish_reason
    if answer.kind in (AnswerKind.ERROR, AnswerKind.RATE_LIMITED) or answer.wire.startswith("error"):
        return "error"
    if answer.kind in (AnswerKind.BLOCKED, AnswerKind.REFUSAL):
        return "blocked"
    return None
