"""Error bodies and error events, in the shapes the platforms use. Told apart by codes, never by message text."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from domain.answers.fields import Node, at, clean, node_at, nodes_at, text_at, words
from domain.answers.model import AnswerKind

_RATE_LIMIT_CODES = words(
    "429 18 336501 336502 1302 1303 1305 too_many_requests toomanyrequests rate_limit_error rate_limit_exceeded"
    " rate_limit_reached_error rate_limited resource_exhausted limitexceeded requestlimitexceeded limitrequests"
    " throttlingexception throttling engine_overloaded_error rpm_rate_limit_exceeded tpm_rate_limit_exceeded"
    " ratelimitexceeded"
)
_FILTER_CODES = words(
    "1301 336104 content_filter data_inspection_failed datainspectionfailed sensitivecontentdetected"
    " inputtextsensitivecontentdetected"
)
_KEY = re.compile(r"\b(?:sk|pk|ak|xai|gsk|pplx|AIza)[-_]?[A-Za-z0-9_\-*]{12,}")  # a platform may quote the key
_ANSWER_KEYS = words(
    "choices output candidates outputs steps result results search_result message_id content answer_body page_text"
    " response_text answer_text answer_markdown answer response text"
)
_STATE_KEYS = ("code", "Code", "status", "error_code", "__type", "statusCode")
_FINE = words(
    "0 200 ok true success succeeded successful complete completed done finished none null"
    " queued pending running processing in_progress streaming"
)
_NO_ERROR = _FINE - {"true"} | {"false"}
_FAULTY_TYPE = re.compile(r"error|exception|fault|fail", re.I)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no answer: a kind and a short reason."""

    kind: AnswerKind
    reason: str


def first_fault(events: Iterable[Node]) -> Fault | None:
    return next((fault for event in events if (fault := fault_of(event)) is not None), None)


def fault_of(event: Node) -> Fault | None:
    """The fault an event reports at its top level, or under `Response` (Tencent) or `response` (OpenAI)."""
    for holder in (event, node_at(event, "Response"), node_at(event, "response")):
        error = holder.get("error") or holder.get("Error")
        if isinstance(error, dict) and not _is_fine(error):
            return _classify(_codes(error), _message(error))
        if isinstance(error, str) and error.strip().casefold() not in _NO_ERROR:
            codes = [error, *_codes(holder)]
            return _classify(codes, _message(holder) or text_at(holder, "error_description"))
    return _bare_fault(event)


def _bare_fault(event: Node) -> Fault | None:
    """A code and a message without an `error` around them: DashScope, ERNIE, AWS, FastAPI.

    Beside an answer, and under a code that says all is well, the message is only a remark.
    """
    if any(event.get(key) for key in _ANSWER_KEYS):
        return None
    errors = nodes_at(event, "errors")
    if errors:
        return _classify(_codes(errors[0]), _message(errors[0]))
    codes, message = _codes(event), _message(event)
    if message and not _is_fine(event) and (_names_a_fault(event, codes) or len(event) <= 2):
        return _classify(codes, message)
    return None


def _is_fine(holder: Node) -> bool:
    """Whether the holder has a code or status and each one is of success, or of work under way."""
    states = [holder.get(key) for key in _STATE_KEYS]
    said = [str(state).strip().casefold() for state in states if isinstance(state, str | int) and state != ""]
    return bool(said) and _FINE.issuperset(said)


def _names_a_fault(event: Node, codes: list[str]) -> bool:
    """A `type` alone says what an event is; only some types are errors."""
    kind = event.get("type")
    return any(code != kind for code in codes) or _FAULTY_TYPE.search(str(kind)) is not None


def _codes(error: Node) -> list[str]:
    values = [error.get(key) for key in ("code", "Code", "type", "status", "error_code", "__type", "statusCode")]
    return [str(value) for value in values if isinstance(value, str | int) and value not in ("", 0)]


def _message(error: Node) -> str:
    keys = ("message", "Message", "error_msg", "msg", "detail")
    found = [at(error, key) for key in keys]
    return next((text for text in found if isinstance(text, str) and text), "")


def _classify(codes: list[str], message: str) -> Fault:
    known = {part for code in codes for part in (code.casefold(), code.casefold().split(".")[0])}
    known |= {code.casefold().rpartition("#")[2] for code in codes}
    label = codes[0] if codes else "error"
    reason = " ".join(_KEY.sub("***", clean(f"{label}: {message[:2000]}"))[:240].split()).removesuffix(":")
    if known & _RATE_LIMIT_CODES:
        return Fault(AnswerKind.RATE_LIMITED, reason)
    if known & _FILTER_CODES:
        return Fault(AnswerKind.REFUSAL, reason)
    return Fault(AnswerKind.ERROR, reason)
