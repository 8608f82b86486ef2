"""The visible text and the links of an HTML page, in time linear in its length whatever it holds."""

import html
import re
from dataclasses import dataclass, field

from domain.answers.fields import words
from domain.answers.model import Source

# Every branch either ends at the next "<" or eats the rest, so that no position is scanned twice.
_TOKEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<[!?][^<>]*>"
    r"|<(?P<silent>script|style|noscript|template|svg|head|title)\b.*?(?:</(?P=silent)\s*>|\Z)"
    r"|<(?P<close>/?)(?P<tag>[a-z][a-z0-9]*)(?P<attributes>[^<>]*)>"
    r"|(?P<text><?[^<]*)",
    re.I | re.S,
)
_HREF = re.compile(r"""\bhref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.I)
_BLOCKS = words("p div br li tr h1 h2 h3 h4 h5 h6 pre blockquote section article")


@dataclass(slots=True)
class Page:
    """A page while it is read: text pieces so far, links so far, and the open link."""

    pieces: list[str] = field(default_factory=list)
    links: list[Source] = field(default_factory=list)
    href: str | None = None
    label_start: int = 0

    @property
    def text(self) -> str:
        """A line a block, white space collapsed."""
        lines = [" ".join(line.split()) for line in "".join(self.pieces).split("\n")]
        return "\n".join(line for line in lines if line)


def read_page(page: str) -> Page:
    """Text and web links (http and https, in order, duplicates kept). Scripts, styles and the head are silent."""
    found = Page()
    for match in _TOKEN.finditer(page):
        if match["tag"]:
            _take_tag(found, match["tag"].casefold(), bool(match["close"]), match["attributes"])
        elif match["text"]:
            found.pieces.append(_unescaped(match["text"]))
    return found


def _take_tag(page: Page, tag: str, closing: bool, attributes: str) -> None:
    if tag in _BLOCKS:
        page.pieces.append("\n")
    if tag != "a":
        return
    if closing:
        _close_link(page)
    else:
        href = _HREF.search(attributes)
        page.href = _unescaped("".join(filter(None, href.groups()))).strip() if href else None
        page.label_start = len(page.pieces)


def _close_link(page: Page) -> None:
    if page.href and page.href.casefold().startswith(("http://", "https://")):
        label = " ".join("".join(page.pieces[page.label_start :]).split())
        page.links.append(Source(page.href, label or None))
    page.href = None


def _unescaped(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # a character reference of thousands of digits
        return text
