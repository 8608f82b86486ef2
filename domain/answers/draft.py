"""What a reader found, and the verdict on it: an answer, a cut one, or none and why (2-desktop §2.4, 3-results §3.1).

The rule of §3.1 that a failed run is *missing* rather than "brand not mentioned" decides the doubtful cases: a paused
turn, a pending tool call and a stream without its end are no answers, however much text they hold. A text cut by the
length limit is one.
"""

from dataclasses import dataclass, replace

from domain.answers.document import Document, Framing
from domain.answers.faults import Fault
from domain.answers.fields import clean, words
from domain.answers.model import Answer, AnswerKind, Source
from domain.parsing.notices import notice_in

_LENGTH = words(
    "length max_tokens max_output_tokens max_length max_completion_tokens reason_max_len reason_max_context"
    " model_context_window_exceeded model_length token_limit"
)
_FILTERED = words(
    "content_filter content_filtered refusal safety recitation prohibited_content blocklist spii image_safety"
    " guardrail_intervened sensitive error_toxic reason_content_filter filtered moderated moderation blocked"
    " model_armor image_prohibited_content image_recitation content_filtering"
)
_FAILED = words(
    "failed error cancelled canceled network_error insufficient_system_resource malformed_function_call other"
    " language error_limit reason_time_limit unexpected_tool_call too_many_tool_calls malformed_response"
    " missing_thought_signature image_other no_image malformed_tool_use malformed_model_output user_cancel timeout"
    " expired aborted interrupted user_interrupt"
)
_PAUSED = words(
    "pause_turn in_progress queued pending running processing streaming requires_action incomplete"
    " pause reason_invalid created started wip"
)
_TOOLS = words("tool_calls tool_call tool_use function_call reason_tool_calls tooluse tool")


@dataclass(frozen=True, slots=True)
class Draft:
    """A reader's findings before the verdict. `ended` overrides the wire's own end marks where it has some.

    `tool_calls`: it called tools; `waits`: one of them is the caller's to run, so that the answer is still to come.
    """

    wire: str
    text: str = ""
    citations: tuple[Source, ...] = ()
    retrieved: tuple[Source, ...] = ()
    search_queries: tuple[str, ...] = ()
    model: str | None = None
    finish_reason: str | None = None
    request_id: str | None = None
    refusal: str = ""
    tool_calls: bool = False
    waits: bool = False
    search_only: bool = False
    ended: bool | None = None
    fault: Fault | None = None
    platform: str | None = None


def conclude(draft: Draft, document: Document) -> Answer:
    """The answer of a draft, its text cleaned and its kind decided."""
    if (text := clean(draft.text)) is not draft.text:
        draft = replace(draft, text=text)
    kind, reason = _verdict(draft, document)
    return Answer(
        wire=draft.wire + document.framing.value.removesuffix(".text"),
        kind=kind,
        text=draft.text,
        citations=draft.citations,
        retrieved=draft.retrieved,
        search_queries=draft.search_queries,
        model=draft.model,
        finish_reason=draft.finish_reason,
        request_id=draft.request_id,
        error=None if kind.is_answer else reason,
        platform=draft.platform,
    )


def _verdict(draft: Draft, document: Document) -> tuple[AnswerKind, str]:
    finish = (draft.finish_reason or "").casefold().rpartition(".")[2]  # "FinishReason.STOP" in dumps of objects
    if draft.fault is not None:
        return draft.fault.kind, draft.fault.reason
    if draft.refusal or finish in _FILTERED:
        return AnswerKind.REFUSAL, clean(draft.refusal)[:200] or f"filtered: {finish}"
    if finish in _FAILED:
        return AnswerKind.ERROR, f"the platform ended the answer with {finish}"
    if not draft.text.strip():
        return _without_text(draft, finish)
    if finish in _PAUSED:
        return AnswerKind.UNFINISHED, f"the platform paused with {finish}"
    if finish in _TOOLS or (draft.waits and not _is_cut(finish)):
        return AnswerKind.UNFINISHED, "the answer waits for a tool's result"
    if _is_cut(finish):
        return AnswerKind.TRUNCATED, ""
    if (document.streamed or _stops_short(draft, document)) and not _ended(draft, document):
        return AnswerKind.UNFINISHED, "the stream ended without an end mark"
    return _spoken(draft)


def _spoken(draft: Draft) -> tuple[AnswerKind, str]:
    """A whole message: an answer, unless all it says is that there is none. A notice cites nobody."""
    notice = None if draft.citations else notice_in(draft.text)
    if notice is None:
        return AnswerKind.ANSWER, ""
    return AnswerKind(notice), f"the platform says: {' '.join(draft.text.split())[:200]}"


def _stops_short(draft: Draft, document: Document) -> bool:
    """A stream that is no stream of events, but whose reader knows its end marks."""
    return document.framing is Framing.TEXT and draft.ended is False


def _is_cut(finish: str) -> bool:
    return finish in _LENGTH


def _ended(draft: Draft, document: Document) -> bool:
    if draft.ended is not None:
        return draft.ended
    return bool(draft.finish_reason) or document.done


def _without_text(draft: Draft, finish: str) -> tuple[AnswerKind, str]:
    if draft.tool_calls or finish in _TOOLS:
        return AnswerKind.TOOL_CALL_ONLY, "the platform asked for a tool call and gave no text"
    if finish in _PAUSED:
        return AnswerKind.UNFINISHED, f"the platform paused with {finish} and gave no text"
    if draft.search_only:
        return AnswerKind.SEARCH_ONLY, "search results without an answer"
    if _is_cut(finish):
        return AnswerKind.EMPTY, "the length limit was reached before any text"
    return AnswerKind.EMPTY, "the answer holds no text"
