"""From a result message to what the database is told: pure CPU work, no I/O (3-results §3.2, §3.3)."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from domain.answers import Answer, AnswerKind, read_answer
from domain.parsing.result import ParsedAnswer, parse_answer
from domain.transport import ResultMessage
from store.facts import AttemptContext, BrandNames, ParseFact, RunFact
from store.settlement import Ending
from telemetry import metrics
from telemetry.effects import count

log = logging.getLogger(__name__)

BADCASE_BELOW: Final = 0.5
"""Confidence under which an answer goes to the badcases whatever the parser's reasons."""

PARSER_ERROR: Final = "parser_error"
"""Failure kind and badcase reason of an answer that our own program failed on."""

MAX_REASON: Final = 500


@dataclass(frozen=True, slots=True)
class Outcome:
    """One result, read: the fact to store and how its attempt ended."""

    context: AttemptContext
    fact: RunFact
    ending: Ending

    @property
    def may_count(self) -> bool:
        """Whether its attempt is not settled yet in a way that this changes nothing of (`domain.settlement`)."""
        settled = ("succeeded",) if self.ending.succeeded else ("succeeded", "failed")
        return self.context.outcome not in settled


def interpret(message: ResultMessage, context: AttemptContext, brand: BrandNames, raw_key: str | None) -> Outcome:
    """Read and parse one answer. A body that is no answer makes a failed run with a readable reason."""
    if message.outcome != "succeeded":
        fact = _failed(message, context, "desktop_error", message.error or "the desktop gave no reason", raw_key)
        return _outcome(message, context, fact)
    if message.raw is None:
        return _outcome(message, context, _failed(message, context, "empty", "the result has no body", raw_key))
    return _outcome(message, context, _judged(message, message.raw, context, brand, raw_key))


def _judged(
    message: ResultMessage, raw: str, context: AttemptContext, brand: BrandNames, raw_key: str | None
) -> RunFact:
    """An error of ours in reading or parsing costs this run alone, until a reparse of its raw body mends it."""
    try:
        answer = read_answer(raw.encode(), platform=context.ai_platform_id)
        if not answer.kind.is_answer:
            return _no_answer(message, context, answer, raw_key)
        return _answered(message, context, answer, _parse(answer, context, brand), raw_key)
    except Exception as error:
        log.exception("the answer of attempt %s cannot be parsed", context.attempt_id)
        count(metrics.parser_errors)
        failed = _failed(message, context, PARSER_ERROR, f"our parser failed: {error!r}", raw_key)
        return replace(failed, badcase=(PARSER_ERROR, 0.0))


def refused(outcome: Outcome, reason: str) -> Outcome:
    """The same result when its raw body can't be stored: an answer nobody can look up again is a failed run."""
    fact = RunFact(
        outcome.fact.attempt_id,
        outcome.fact.tenant_id,
        outcome.fact.run_at,
        failure_kind="raw_store_refused",
        failure_reason=reason[:MAX_REASON],
    )
    ending = Ending(
        outcome.ending.attempt_id, False, reason[:MAX_REASON], outcome.ending.received_at, outcome.ending.phase_times
    )
    return Outcome(outcome.context, fact, ending)


def _parse(answer: Answer, context: AttemptContext, brand: BrandNames) -> ParsedAnswer:
    cited = [(each.url, each.title, each.site_name) for each in answer.citations if each.url]
    return parse_answer(
        answer.text,
        question=context.question,
        names=brand.names,
        own_domains=brand.own_domains,
        competitor_domains=brand.competitor_domains,
        citation_urls=cited,
    )


def _answered(
    message: ResultMessage, context: AttemptContext, answer: Answer, parsed: ParsedAnswer, raw_key: str | None
) -> RunFact:
    searched = bool(answer.search_queries or answer.retrieved or answer.citations)
    return RunFact(
        context.attempt_id,
        context.tenant_id,
        message.received_at,
        ParseFact(parsed, searched),
        provider_model=_clean(answer.model or message.model),
        request_id=_clean(answer.request_id or message.request_id),
        wire=answer.wire,
        finish_reason=_clean(answer.finish_reason),
        answer_chars=len(answer.text),
        raw_answer_key=raw_key,
        badcase=_badcase(parsed),
    )


def _badcase(parsed: ParsedAnswer) -> tuple[str, float] | None:
    if parsed.badcase_reason is not None:
        return parsed.badcase_reason, parsed.confidence
    return ("low_confidence", parsed.confidence) if parsed.confidence < BADCASE_BELOW else None


def _no_answer(message: ResultMessage, context: AttemptContext, answer: Answer, raw_key: str | None) -> RunFact:
    unread = answer.kind is AnswerKind.ERROR and answer.wire in ("unknown", "unreadable")
    return RunFact(
        context.attempt_id,
        context.tenant_id,
        message.received_at,
        failure_kind=answer.kind.value,
        failure_reason=_clean(answer.error or answer.kind.value),
        provider_model=_clean(answer.model or message.model),
        request_id=_clean(answer.request_id or message.request_id),
        wire=answer.wire,
        finish_reason=_clean(answer.finish_reason),
        answer_chars=len(answer.text),
        raw_answer_key=raw_key,
        badcase=("unknown_format", 0.0) if unread else None,
    )


def _failed(message: ResultMessage, context: AttemptContext, kind: str, reason: str, raw_key: str | None) -> RunFact:
    return RunFact(
        context.attempt_id,
        context.tenant_id,
        message.received_at,
        failure_kind=kind,
        failure_reason=_clean(reason),
        provider_model=_clean(message.model),
        request_id=_clean(message.request_id),
        raw_answer_key=raw_key,
    )


def _outcome(message: ResultMessage, context: AttemptContext, fact: RunFact) -> Outcome:
    succeeded = fact.parse is not None
    error = None if succeeded else fact.failure_reason
    times: Mapping[str, float] = message.phase_times
    return Outcome(context, fact, Ending(context.attempt_id, succeeded, error, message.received_at, times))


def _clean(text: str | None) -> str | None:
    """Text that PostgreSQL can hold: no NUL, no lone surrogate, of bounded length; None for nothing."""
    if not text:
        return None
    sound = text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    return sound[:MAX_REASON]
