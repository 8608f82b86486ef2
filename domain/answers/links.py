"""Sources an answer writes into its text, for the formats without a citation structure (3-results §3.3)."""

import re

from domain.answers.fields import clean
from domain.answers.model import Source
from domain.parsing.links import extract_links

_FOOTNOTE = re.compile(r"^ {0,3}\[\^[^\]\s]{1,40}\]:[ \t]*(https?://\S{1,2000})", re.M)


def written_sources(text: str) -> tuple[Source, ...]:
    """Markdown, bare and footnote links in reading order, repeated ones as often."""
    return tuple(Source(link.url, link.title) for link in extract_links(clean(text)))


def footnote_sources(text: str) -> tuple[Source, ...]:
    """Footnote definitions in file order, also of footnotes the text never refers to."""
    return tuple(Source(match.group(1)) for match in _FOOTNOTE.finditer(clean(text)))
