"""Exports and pages: markdown or plain text, HTML, and pages that hold no answer."""

import re

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.faults import Fault
from domain.answers.fields import clean
from domain.answers.links import footnote_sources, written_sources
from domain.answers.model import AnswerKind
from domain.answers.readers.base import Reader
from domain.answers.readers.html_text import is_markup, read_page

_CHALLENGE = re.compile(
    r"challenges\.cloudflare\.com|cdn-cgi/challenge-platform|cf-turnstile|g-recaptcha|hcaptcha\.com|_incapsula_"
    r"|data-sitekey|captcha-delivery|aliyun_waf|punish-page",
    re.I,
)
_LOGIN = re.compile(r"<input[^<>]{0,300}type=[\"']?password", re.I)
_STATUS = re.compile(
    r"<title>[^<]{0,80}?\b(4\d\d|5\d\d)\b[ :|-]{1,3}(?:bad gateway|service|gateway time|internal|forbidden"
    r"|access denied|unauthori|authorization|not found|bad request|request|too many|web server|a timeout"
    r"|connection timed|error|origin)",
    re.I,
)
_STATUS_KINDS = {"403": AnswerKind.BLOCKED, "429": AnswerKind.RATE_LIMITED}
_SHORT_PAGE = 1500  # visible characters: a real answer's page may load such a script too
_PERPLEXITY_NOTE = re.compile(r"\[\^\d{1,4}_\d{1,4}\]")


def _is_html(document: Document) -> bool:
    if document.events:
        return False
    return is_markup(document.text)


def _read_html(document: Document) -> Draft:
    page = read_page(clean(document.text))
    text = page.text
    fault = _obstacle(document.text) if len(text) < _SHORT_PAGE else None
    if fault:
        blocked = fault.kind is AnswerKind.BLOCKED
        return Draft("html.block-page" if blocked else "html", text="" if blocked else text, fault=fault)
    return Draft("html", text=text, citations=tuple(page.links))


def _obstacle(html: str) -> Fault | None:
    if _CHALLENGE.search(html):
        return Fault(AnswerKind.BLOCKED, "a bot challenge page instead of an answer")
    if _LOGIN.search(html):
        return Fault(AnswerKind.BLOCKED, "a login page instead of an answer")
    if (status := _STATUS.search(html)) is not None:
        kind = _STATUS_KINDS.get(status[1], AnswerKind.ERROR)
        return Fault(kind, f"an error page of status {status[1]} instead of an answer")
    return None


def _is_text(document: Document) -> bool:
    return not document.events


def _read_text(document: Document) -> Draft:
    """Markdown or plain text. Perplexity's export lists its sources as footnotes, which are then the whole list."""
    text = document.text
    noted = footnote_sources(text) if _PERPLEXITY_NOTE.search(text) else ()
    return Draft(
        wire="perplexity.export-md" if noted else "markdown",
        text=text,
        citations=noted or written_sources(text),
    )


HTML = Reader("html", _is_html, _read_html)
TEXT = Reader("markdown", _is_text, _read_text)
