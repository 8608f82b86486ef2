"""Links a text shows its reader: markdown, autolinks, bare URLs, footnotes (3-results §3.3)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

# Latin URL characters; brackets, pipes, quotes and full-width punctuation end a URL.
_LATIN: Final = r"A-Za-z0-9\-._~:/?#@!$&'()*+,;=%"
_LETTERS: Final = r"\u00c0-\u02af\u0370-\u1fff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
# Text written right behind a URL is not part of it, but a segment may be written in Han.
_TAIL: Final = rf"[/?#](?>(?:[{_LATIN}]++|(?<=[/=&?#_\-{_LETTERS}])[{_LETTERS}]++)*)"
_HOST: Final = rf"(?:[A-Za-z0-9][A-Za-z0-9.\-@:_]*+|[{_LETTERS}][A-Za-z0-9.\-:{_LETTERS}]*+)"
_BARE: Final = re.compile(rf"(?:[Hh][Tt]{{2}}[Pp][Ss]?://|(?<![A-Za-z0-9@./\-_])[Ww]{{3}}\.){_HOST}(?:{_TAIL})?")
_TRAILING: Final = ".,;:!?'*_~"
# Of a link's destination: not "mailto:", "sandbox:", "#top" or "/docs".
_WEB: Final = re.compile(r"(?:https?:)?//|[^\s:/?#.]++\.[^\s:/?#]", re.IGNORECASE)

# markdown-it takes time in brackets times length; past this only bare URLs are looked for.
_MAX_INLINE_WORK: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Link:
    """A link as written, with its text when that says more than the URL."""

    url: str
    title: str | None = None


class _VerbatimMarkdown(MarkdownIt):
    """CommonMark blocks and links only, with every destination kept as it was written."""

    def __init__(self) -> None:
        super().__init__("zero")
        self.enable(["fence", "list", "blockquote", "heading", "reference"])
        self.enable(["backticks", "link", "image", "autolink", "escape"])
        self.core.ruler.disable("inline")  # _links_of parses blocks one by one, if at all

    def normalizeLink(self, url: str) -> str:  # noqa: N802 - markdown-it's name
        return url

    def validateLink(self, url: str) -> bool:  # noqa: N802 - markdown-it's name
        return True


_MARKDOWN: Final = _VerbatimMarkdown()


def extract_links(text: str) -> tuple[Link, ...]:
    """Every link of ``text`` to the web in reading order, repeated ones as often (3-results §3.3).

    Code is skipped, and so are links to mail, to files of a sandbox and within the page. Reference
    and footnote definitions that the text never uses come last.
    """
    if not any(mark in text for mark in ("://", "www.", "](", "]:")):
        return ()
    environment: dict[str, Any] = {}
    tokens = _MARKDOWN.parse(text, environment)
    shown = [link for link in _inline_links(tokens, environment) if _WEB.match(link.url)]
    known = {link.url for link in shown}
    unused = [link for link in _defined_links(environment) if _WEB.match(link.url) and link.url not in known]
    return (*shown, *unused)


def bare_spans(text: str) -> Iterator[tuple[int, int]]:
    """Spans of the URLs written out in ``text``, without the sentence's punctuation."""
    for match in _BARE.finditer(text):
        yield match.start(), match.start() + len(_trimmed(match.group()))


def _trimmed(url: str) -> str:
    """Without trailing punctuation and without parentheses the URL did not open."""
    surplus = url.count(")") - url.count("(")
    end = len(url)
    while end and (url[end - 1] in _TRAILING or (url[end - 1] == ")" and surplus > 0)):
        surplus -= url[end - 1] == ")"
        end -= 1
    return url[:end]


def _inline_links(tokens: list[Token], environment: dict[str, Any]) -> Iterator[Link]:
    for token in tokens:
        if token.type == "inline":
            yield from _links_of(token.content, environment)


def _links_of(content: str, environment: dict[str, Any]) -> Iterator[Link]:
    work = (content.count("[") + content.count("<")) * len(content)
    if not 0 < work + content.count("`") < _MAX_INLINE_WORK:
        yield from _bare_links(content)
        return
    children: list[Token] = []
    _MARKDOWN.inline.parse(content, _MARKDOWN, environment, children)
    yield from _walk(children)


def _walk(children: list[Token]) -> Iterator[Link]:
    """Links in order: an open link gathers its label, other text is searched for bare URLs."""
    url: str | None = None
    label: list[str] = []
    for child in children:
        if child.type == "link_open":
            url, label = str(child.attrs["href"]), []
        elif child.type == "link_close" and url is not None:
            yield Link(url, _title("".join(label), url))
            url = None
        elif url is not None:
            label.append(child.content)
        elif child.type == "text":
            yield from _bare_links(child.content)


def _title(label: str, url: str) -> str | None:
    words = label.strip()
    says_more = words and words not in url and not words.strip("[]^ ").isdigit()
    return words if says_more else None


def _bare_links(content: str) -> Iterator[Link]:
    for start, end in bare_spans(content):
        yield Link(content[start:end])


def _defined_links(environment: dict[str, Any]) -> Iterator[Link]:
    for definition in environment.get("references", {}).values():
        yield Link(definition["href"], definition.get("title") or None)
