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
    " ratelimitexceeded accountratelimitexceeded quotaexceeded serveroverloaded setlimitexceeded modelnotready"
    " throttlingerror servicequotaexceededexception ratelimit rate_limit rate_limit_exceeded_error user_rate_limit"
    " insufficient_quota ratelimitreached 11202 11203 11210 minimax:1002 minimax:1039 minimax:1041 minimax:2045"
    " sparkratelimit usage_limit_reached"
)
_FILTER_CODES = words(
    "1301 336104 content_filter data_inspection_failed datainspectionfailed sensitivecontentdetected"
    " inputtextsensitivecontentdetected outputtextsensitivecontentdetected contentfilter content_policy_violation"
    " responsibleaipolicyviolation inputtextriskdetection outputtextriskdetection content_filter_error 10013 10014"
    " 10019 minimax:1026 minimax:1027 sensitive_content moderation_blocked prompt_blocked"
)
_KEY = re.compile(r"\b(?:sk|pk|ak|xai|gsk|pplx|AIza)[-_]?[A-Za-z0-9_\-*]{12,}")  # a platform may quote the key
_ANSWER_KEYS = words(
    "choices output candidates outputs steps result results search_result message_id content answer_body page_text"
    " response_text answer_text answer_markdown answer response text reply completion markdown"
)
_STATE_KEYS = ("code", "Code", "status", "error_code", "__type", "statusCode", "status_code", "errorCode")
_MESSAGE_KEYS = ("message", "Message", "error_msg", "msg", "detail", "errorMessage", "title", "status_msg")
_FAULT_KEYS = frozenset((*_MESSAGE_KEYS, "error", "Error", "errors", "Response", "response", "base_resp", "Output"))
_FINE = words(
    "0 200 ok true success succeeded successful complete completed done finished none null"
    " queued pending running processing in_progress streaming"
)
_NO_ERROR = _FINE - {"true"} | {"false"}
_EXCEPTION = re.compile(r"exception\Z", re.I)
_FAULTY_TYPE = re.compile(r"error|exception|fault|fail", re.I)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no answer: a kind and a short reason."""

    kind: AnswerKind
    reason: str


def first_fault(events: Iterable[Node]) -> Fault | None:
    return next((fault for event in events if _may_fail(event) and (fault := fault_of(event)) is not None), None)


def _may_fail(event: Node) -> bool:
    """Whether a look is worth while: most events of a stream have no key that a fault could stand under."""
    return not _FAULT_KEYS.isdisjoint(event) or (len(event) == 1 and _EXCEPTION.search(next(iter(event))) is not None)


def fault_of(event: Node) -> Fault | None:
    """The fault an event reports at its top level, or under `Response` (Tencent) or `response` (OpenAI)."""
    if "__type" in (refused := node_at(event, "Output")):  # how AWS answers a call to an operation it does not have
        return _classify(_codes(refused), _message(refused))
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
    if (refused := node_at(event, "base_resp")) and refused.get("status_code"):
        return _classify([f"minimax:{refused['status_code']}"], _message(refused))
    if any(event.get(key) for key in _ANSWER_KEYS):
        return None
    if (thrown := _exception(event)) is not None:
        return thrown
    errors = nodes_at(event, "errors")
    if errors:
        return _classify(_codes(errors[0]), _message(errors[0]))
    codes, message = _codes(event), _message(event)
    if message and not _is_fine(event) and (_names_a_fault(event, codes) or _is_curt(event)):
        return _classify(codes, message)
    return None


def _is_curt(event: Node) -> bool:
    """Hardly more than a message, or one that says of itself that nothing came of it."""
    return (len(event) <= 2 and "type" not in event) or event.get("success") is False or event.get("ok") is False


def _exception(event: Node) -> Fault | None:
    """A stream's event whose only key names an exception, as AWS sends it."""
    name, held = next(iter(event.items()), ("", None))
    if len(event) == 1 and _EXCEPTION.search(name) and isinstance(held, dict):
        return _classify([name], _message(held))
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
    keys = ("code", "Code", "type", "status", "error_code", "__type", "statusCode", "status_code", "errorCode")
    values = [error.get(key) for key in keys]
    return [str(value) for value in values if isinstance(value, str | int) and value not in ("", 0)]


def _message(error: Node) -> str:
    found = (at(error, key) for key in _MESSAGE_KEYS)
    plain = next((text for text in found if isinstance(text, str) and text), "")
    return plain or next((text_at(entry, "msg") for entry in nodes_at(error, "detail")), "")


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
