"""The answer's visible text and links in an HTML page, in time linear in its length whatever it holds.

The text is Markdown as far as the parsing rules read it: numbered and bulleted lists, code, table cells, reference
marks. What surrounds an answer on a chat page is left out: navigation, buttons, forms, the question, source chips.
"""

import html
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from domain.answers.fields import words
from domain.answers.model import Source

# Every branch either ends at the next "<" or eats the rest, so that no position is scanned twice.
_TOKEN: Final = re.compile(
    r"<!--.*?(?:-->|\Z)|<[!?][^<>]*>"
    r"|<(?P<silent>script|style|noscript|template|svg|math|head|title|iframe|select|textarea)\b"
    r".*?(?:</(?P=silent)\s*>|\Z)"
    r"|<(?P<close>/?)(?P<tag>[a-z][a-z0-9-]*)(?P<attributes>(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*'|[\"'])*+)>"
    r"|(?P<text><?[^<]*)",
    re.I | re.S,
)
_HTML_START: Final = re.compile(r"\s*+(?>(?:<!--.*?-->\s*+)*)<(?:!doctype|html|head|body)\b", re.I | re.S)
# A piece of a page, as scraping an element's inner HTML gives it; Markdown may hold some tags, but starts otherwise.
_FRAGMENT: Final = re.compile(r"\s*+<(div|p|main|article|section|ul|ol|table|h[1-6]|span)\b[^<>]*>", re.I)
_HREF: Final = re.compile(r"""(?<![\w-])href\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.I)
_START: Final = re.compile(r"""(?<![\w-])(?:start|value)\s*=\s*["']?(\d{1,4})""", re.I)
_VOID: Final = words("area base br col embed hr img input link meta param source track wbr")
_BLOCKS: Final = words(
    "p div br hr li tr h1 h2 h3 h4 h5 h6 pre blockquote section article main ul ol dl dt dd table figure details"
    " summary"
)
_SURROUNDINGS: Final = words("nav header footer aside button form dialog menu")
# A person's turn, and furniture of chat pages, by what their elements are called.
_FURNITURE: Final = re.compile(
    r"""data-message-author-role\s*=\s*["']user|aria-hidden\s*=\s*["']true"""
    r"""|role\s*=\s*["'](?:navigation|button|banner|contentinfo|menu|toolbar|dialog|tablist|search)["']"""
    r"""|display:\s*none|visibility:\s*hidden"""
    r"""|(?:class|data-testid|id)\s*=\s*["'][^"'<>]*\b(?:sr-only|visually-hidden|user-message|user-query|follow-?ups?"""
    r"""|related-questions?|suggestions?|copy-button|toolbar|sidebar|breadcrumbs?|cookie-banner|reasoning|thinking"""
    r"""|think-content)\b""",
    re.I,
)
_CHIP: Final = re.compile(
    r"""(?:class|data-testid)\s*=\s*["'][^"'<>]*(?:citation|source-chip|sources?-pill|reference-chip|footnote-ref"""
    r"""|webpage-citation|cite-chip|ref-marker)""",
    re.I,
)
# Where chat pages keep the answer, surest first.
_SCOPES: Final = tuple(
    re.compile(form, re.I)
    for form in (
        r"""data-message-author-role\s*=\s*["']assistant""",
        r"""(?:class|id|data-testid)\s*=\s*["'][^"'<>]*(?<![\w-])(?:markdown|markdown-body|ds-markdown|prose"""
        r"""|model-response-text|answer-content|answer-body|message-content|assistant-message|md-box-root)(?![\w])""",
        r"""<(?:article|main)\b|role\s*=\s*["'](?:main|article)["']""",
    )
)
_ITEM: Final = re.compile(r" *(?:-|\d{1,5}\.) ")
_QUOTED: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
_HIDDEN: Final = re.compile(r"\shidden\b", re.I)
_MARK: Final = re.compile(r"\[?(\d{1,3}(?:\s*[,，]\s*\d{1,3})*)\]?\Z")


@dataclass(slots=True)
class _Element:
    """An open element: what it does to the text inside it."""

    tag: str
    silent: bool = False
    scoped: bool = False
    number: int | None = None  # of the next item of an ordered list


@dataclass(slots=True)
class Page:
    """A page while it is read: text pieces so far, links so far, open elements and the open link."""

    scope: re.Pattern[str] | None = None
    pieces: list[str] = field(default_factory=list)
    links: list[Source] = field(default_factory=list)
    open: list[_Element] = field(default_factory=list)
    count: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    silent: int = 0
    scoped: int = 0
    href: str | None = None
    label: list[str] = field(default_factory=list)
    mark: list[str] | None = None

    @property
    def text(self) -> str:
        """A line a block, white space collapsed except in code blocks."""
        return _tidied("".join(self.pieces))

    @property
    def visible(self) -> bool:
        return not self.silent and (self.scope is None or self.scoped > 0)


def is_markup(text: str) -> bool:
    """Whether a text is an HTML page, or a piece of one with its end tag."""
    begun = _FRAGMENT.match(text[:5000])
    closed = begun is not None and f"</{begun[1]}>".casefold() in text.casefold()
    return closed or _HTML_START.match(text[:20_000]) is not None


def read_page(page: str) -> Page:
    """Text and web links (http and https, in order, duplicates kept) of the answer, or of the whole page."""
    for scope in _SCOPES:
        if scope.search(page):
            found = _read(page, scope)
            if found.text.strip():
                return found
    return _read(page, None)


def _read(page: str, scope: re.Pattern[str] | None) -> Page:
    found = Page(scope)
    for match in _TOKEN.finditer(page):
        if match["tag"]:
            _take_tag(found, match["tag"].casefold(), bool(match["close"]), match["attributes"])
        elif match["text"]:
            _take_text(found, _unescaped(match["text"]))
    _close_mark(found)
    return found


def _take_text(page: Page, text: str) -> None:
    if page.href is not None:
        page.label.append(text)
    if not page.visible:
        return
    if page.mark is not None:
        page.mark.append(text)
        return
    if text.isspace() and _behind_item_mark(page):
        return
    page.pieces.append(text if page.count["pre"] else text.replace("\r", " ").replace("\n", " "))


def _take_tag(page: Page, tag: str, closing: bool, attributes: str) -> None:
    if closing:
        _close(page, tag)
    else:
        _open(page, tag, attributes)


def _open(page: Page, tag: str, attributes: str) -> None:
    if tag == "li" and page.open and page.open[-1].tag == "li":
        _close(page, "li")  # its end tag may be left out
    element = _Element(tag, silent=_is_silent(tag, attributes), number=_first_number(tag, attributes))
    if attributes or tag in ("article", "main"):
        element.scoped = page.scope is not None and page.scope.search(f"<{tag} {attributes}") is not None
    if tag == "a":
        href = _HREF.search(attributes)
        page.href = _unescaped("".join(filter(None, href.groups()))).strip() if href else None
        page.label = []
    if tag not in _VOID:
        page.open.append(element)
        page.count[tag] += 1
        page.silent += element.silent
        page.scoped += element.scoped
    if page.visible:
        _begin(page, tag)


def _is_silent(tag: str, attributes: str) -> bool:
    if tag in _SURROUNDINGS:
        return True
    if "hidden" in attributes and _HIDDEN.search(_QUOTED.sub("", attributes)):
        return True
    return bool(attributes) and (_FURNITURE.search(attributes) or _CHIP.search(attributes)) is not None


def _first_number(tag: str, attributes: str) -> int | None:
    if tag != "ol":
        return None
    start = _START.search(attributes)
    return int(start[1]) if start else 1


def _begin(page: Page, tag: str) -> None:
    """What an opening tag writes: a new line, a list's mark, a fence."""
    if tag in _BLOCKS and not _behind_item_mark(page):
        page.pieces.append("\n")
    if tag == "li":
        page.pieces.append(_item_mark(page))
    elif tag == "pre":
        page.pieces.append("```\n")
    elif tag == "code" and not page.count["pre"]:
        page.pieces.append("`")
    elif tag in ("td", "th"):
        page.pieces.append(" | ")
    elif tag == "sup":
        page.mark = []


def _behind_item_mark(page: Page) -> bool:
    """A paragraph right inside an item stays on the line of its number."""
    return bool(page.pieces) and page.pieces[-1].endswith((". ", "- ")) and _ITEM.match(page.pieces[-1]) is not None


def _item_mark(page: Page) -> str:
    depth = page.count["ol"] + page.count["ul"]
    indent = "   " * min(max(depth - 1, 0), 8)
    for element in reversed(page.open):
        if element.tag == "ul":
            break
        if element.number is not None:
            element.number += 1
            return f"{indent}{element.number - 1}. "
    return f"{indent}- "


def _close(page: Page, tag: str) -> None:
    """Close the innermost such element and all left open inside it; an end tag without a start is passed over."""
    if tag == "a":
        _close_link(page)
    if not page.count[tag]:
        return
    while page.open:
        element = page.open.pop()
        page.count[element.tag] -= 1
        _end(page, element)
        if element.tag == tag:
            return


def _end(page: Page, element: _Element) -> None:
    if element.tag == "sup":
        _close_mark(page)
    if page.visible:
        if element.tag == "pre":
            page.pieces.append("\n```\n")
        elif element.tag == "code" and not page.count["pre"]:
            page.pieces.append("`")
        elif element.tag in _BLOCKS:
            page.pieces.append("\n")
    page.silent -= element.silent
    page.scoped -= element.scoped


def _close_mark(page: Page) -> None:
    """A raised number is a reference, which must not grow onto the word before it; other raised text stays."""
    if page.mark is not None:
        raised = "".join(page.mark).strip()
        number = _MARK.match(raised)
        page.pieces.append(f"[{number[1]}]" if number else raised)
    page.mark = None


def _close_link(page: Page) -> None:
    """A link counts also where its label is not read: a source chip is how chat pages cite."""
    in_answer = page.scope is None or page.scoped > 0
    if in_answer and page.href and page.href.casefold().startswith(("http://", "https://")) and not _in_frame(page):
        label = " ".join("".join(page.label).split())
        page.links.append(Source(page.href, label or None))
    page.href = None


def _in_frame(page: Page) -> bool:
    """Whether a surrounding part of the page is open, whose links nobody cites."""
    return any(page.count[tag] for tag in ("nav", "header", "footer", "form", "menu"))


def _tidied(text: str) -> str:
    return "\n".join(_lines(text))


def _lines(text: str) -> Iterator[str]:
    code = False
    for line in text.split("\n"):
        if line.strip() == "```":
            code = not code
            yield "```"
        elif code:
            yield line.rstrip()
        elif collapsed := " ".join(line.split()):
            indent = len(line) - len(line.lstrip(" "))
            yield " " * (indent if _is_item(collapsed) else 0) + collapsed.removeprefix("| ")


def _is_item(line: str) -> bool:
    return _ITEM.match(line) is not None


def _unescaped(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # a character reference of thousands of digits
        return text
