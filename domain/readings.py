"""One body, read and judged for one brand: what `giveway parse` shows and regression files compare (3-results §3.3)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from domain.answers import Answer, Source, read_answer
from domain.parsing.domains import Owner
from domain.parsing.mentions import BrandName, Mention
from domain.parsing.result import ParsedAnswer, SourceLink, parse_answer


@dataclass(frozen=True, slots=True)
class Subject:
    """What an answer is searched for: names, whose pages count as whose, and the question that it may repeat."""

    names: tuple[BrandName, ...] = ()
    own_domains: tuple[str, ...] = ()
    competitor_domains: tuple[str, ...] = ()
    question: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One source as the answer lists it, repeats included; `ordinal` counts from 1 over those with a URL.

    Without `normalized_url` it is no page of the web; without `domain` nobody can tell whose it is.
    """

    ordinal: int
    url: str
    normalized_url: str | None
    domain: str | None
    owner: Owner


@dataclass(frozen=True, slots=True)
class Reading:
    """A body, read. `parsed` is None for a body that is no answer: nothing can be said of names in it."""

    answer: Answer
    parsed: ParsedAnswer | None
    citations: tuple[Page, ...]
    retrieved: tuple[Page, ...]

    @property
    def mentions(self) -> tuple[Mention, ...]:
        """The names that count at least once."""
        return tuple(each for each in self.parsed.mentions if each.count) if self.parsed else ()

    @property
    def absence(self) -> bool:
        """Whether it is an answer that says it knows nothing of the brand."""
        return self.parsed is not None and self.parsed.absence


def read_for(body: bytes, subject: Subject, *, platform: str | None = None) -> Reading:
    """Read a body and judge what it says of the subject; pure, and total: odd content is a kind, not an error."""
    answer = read_answer(body, platform=platform)
    parsed = _parsed(answer, subject) if answer.kind.is_answer else None
    return Reading(answer, parsed, _pages(answer.citations, subject), _pages(answer.retrieved, subject))


def _parsed(answer: Answer, subject: Subject) -> ParsedAnswer:
    return _parse(answer.text, subject, subject.names, _links(answer.citations))


def _parse(text: str, subject: Subject, names: tuple[BrandName, ...], links: Iterable[SourceLink]) -> ParsedAnswer:
    return parse_answer(
        text,
        question=subject.question,
        names=names,
        own_domains=subject.own_domains,
        competitor_domains=subject.competitor_domains,
        citation_urls=list(links),
    )


def _links(sources: Iterable[Source]) -> Iterator[SourceLink]:
    for source in sources:
        if source.url and source.url.strip():
            yield source.url, source.title, source.site_name


def _pages(sources: Iterable[Source], subject: Subject) -> tuple[Page, ...]:
    return tuple(_page(number, link, subject) for number, link in enumerate(_links(sources), start=1))


def _page(ordinal: int, link: SourceLink, subject: Subject) -> Page:
    """A source judged by itself, with the rules of the facts: among others, a repeated page would be left out."""
    found = _parse("", subject, (), [link]).citations
    if not found:
        return Page(ordinal, link[0], None, None, "other")
    return Page(ordinal, link[0], found[0].normalized_url, found[0].domain, found[0].owner)
