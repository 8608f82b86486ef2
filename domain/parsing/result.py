"""Everything one answer says, as the fact tables store it (3-results §3.1, §3.3)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple

from domain.parsing.domains import Owner, owner_of, registrable_domain, titled_host
from domain.parsing.links import extract_links
from domain.parsing.masking import without_reasoning
from domain.parsing.mentions import BrandName, Mention, find_mentions
from domain.parsing.quality import Quality, is_page, judge
from domain.parsing.urls import NormalizedUrl, normalize_url

EXTRACTOR_VERSION: Final = "v2"
"""Stored with each parse result; a change of any rule makes a new version."""

SourceLink = tuple[str, str | None, str | None]
"""URL, title and site name, as a provider's citation structure gives them."""


class Citation(NamedTuple):
    """One cited page; ``ordinal`` counts from 1 over all links that had a URL.

    A page cited twice keeps its first ordinal and links to no web page are left out, so that
    ordinals may have gaps but still match the answer's ``[n]`` marks. ``citation_hash`` is the
    hexadecimal SHA-256 of ``normalized_url``. ``host`` is that of ``normalized_url``. Of a redirect
    that hides its target, domain and owner are those of a host that its title consists of, else
    None and "other".
    """

    ordinal: int
    raw_url: str
    normalized_url: str
    host: str
    domain: str | None
    site_name: str | None
    title: str | None
    owner: Owner
    citation_hash: str


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """The parse of one answer (3-results §3.1 ``question_monitor_parse_results``).

    ``brand_position`` counts from 1. ``absence``: the answer says it knows nothing of the
    brand; those statements are not visibility. ``share_of_voice`` is the brand's part of all
    counted mentions, from 0 to 1, None when no name is mentioned. ``confidence`` goes from 0 to
    1; a ``badcase_reason`` sends the answer to ``monitoring_parse_badcases``.
    """

    brand_mentioned: bool
    brand_count: int
    brand_position: int | None
    absence: bool
    share_of_voice: float | None
    mentions: tuple[Mention, ...]
    citations: tuple[Citation, ...]
    confidence: float
    badcase_reason: str | None
    extractor_version: str = EXTRACTOR_VERSION


def parse_answer(
    text: str,
    *,
    question: str | None,
    names: Sequence[BrandName],
    own_domains: Sequence[str],
    competitor_domains: Sequence[str],
    citation_urls: Sequence[SourceLink] = (),
) -> ParsedAnswer:
    """Parse one answer: pure, total, and linear in the length of ``text`` (3-results §3.3).

    ``citation_urls`` come from the provider's structure; without any, the links in the text
    count. Domains may be written as hosts or URLs; subdomains are included.
    """
    mentions = find_mentions(text, names, question=question)
    given = [link for link in citation_urls if link[0].strip()]
    links = given or list(_links_in(text))
    citations = tuple(_citations(links, own_domains, competitor_domains))
    quality = judge(text, mentions, links_given=len(given), citations=len(citations))
    return _assembled(mentions, citations, quality)


def _assembled(mentions: tuple[Mention, ...], citations: tuple[Citation, ...], quality: Quality) -> ParsedAnswer:
    brand = [mention for mention in mentions if mention.role == "brand"]
    count = sum(mention.count for mention in brand)
    total = sum(mention.count for mention in mentions)
    places = [mention.position for mention in brand if mention.position is not None]
    return ParsedAnswer(
        brand_mentioned=count > 0,
        brand_count=count,
        brand_position=min(places, default=None),
        absence=any(mention.absent_offsets for mention in brand),
        share_of_voice=count / total if total else None,
        mentions=mentions,
        citations=citations,
        confidence=quality.confidence,
        badcase_reason=quality.badcase_reason,
    )


def _links_in(text: str) -> Iterator[SourceLink]:
    own_words = "" if is_page(text) else without_reasoning(text)
    for link in extract_links(own_words):
        yield link.url, link.title, None


def _citations(links: Iterable[SourceLink], own: Sequence[str], competitors: Sequence[str]) -> Iterator[Citation]:
    seen: set[str] = set()
    for ordinal, (raw, title, site_name) in enumerate(links, start=1):
        page = normalize_url(raw)
        if page is None or page.normalized in seen:
            continue
        seen.add(page.normalized)
        site = _site(page, title, site_name)
        yield Citation(
            ordinal=ordinal,
            raw_url=raw,
            normalized_url=page.normalized,
            host=page.host,
            domain=registrable_domain(site) if site else None,
            site_name=site_name or None,
            title=title or None,
            owner=owner_of(site, own, competitors) if site else "other",
            citation_hash=sha256(page.normalized.encode()).hexdigest(),
        )


def _site(page: NormalizedUrl, title: str | None, site_name: str | None) -> str | None:
    """The host whose page it is: behind an opaque redirect, the one its title or else its site name says."""
    return titled_host(title) or titled_host(site_name) if page.is_opaque else page.host
