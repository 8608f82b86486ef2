"""One canonical form for every cited page (3-results §3.3)."""

import base64
import binascii
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote, unquote_plus

import ada_url

from domain.parsing.domains import has_known_suffix, owner_of
from domain.parsing.sites import Site, site_of
from domain.parsing.url_rules import MIRROR, TRACKING, Wrapper

__all__ = ["MAX_URL_LENGTH", "NormalizedUrl", "normalize_url", "owner_of"]

MAX_URL_LENGTH: Final = 8192
"""Longer URLs, before or after normalisation, are refused (characters)."""

_MAX_CACHED: Final = 512
_OUTER: Final = "".join(map(chr, range(0x21))) + "\u00a0\u200b\u3000\ufeff"
_WEB: Final = re.compile(r"https?:", re.IGNORECASE)
_HOST_AND_PORT: Final = re.compile(r"[^/?#\s:@]+\.[^/?#\s:@]+:\d+(?:[/?#]|\Z)")
_OTHER_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_BARE_HOST: Final = re.compile(r"(?:[^\s/?#@\\]*@)?([^\s/?#@:\\]+)")
_ESCAPE: Final = re.compile(r"%[0-9a-fA-F]{2}")
# Copied out of markup, however often that was escaped.
_ESCAPED_AMPERSAND: Final = re.compile(r"(?:\A|(?<=&))(?:amp;)+")
# A URL as the parser prints it, which leaves nothing ambiguous.
_PARTS: Final = re.compile(
    r"https?://(?:[^/@]*@)?(\[[^\]]*\]|[^/:]*)(?::(\d+))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)
# A URL that the parser prints as it is written, which most are: a host of ASCII labels of which the last is no number,
# a path without dot segments, nothing to escape. The groups are those of a printed one; it has no port and no fragment.
_PLAIN: Final = re.compile(
    r"https?://((?>(?:(?!xn--)[a-z0-9][a-z0-9-]*+\.)+)(?!xn--)[a-z]{2,})()"
    r"((?>(?:/(?!\.)(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%(?!2[eE]))*+)*))(?:\?([A-Za-z0-9\-._~!$&()*+,;=:@/?%]*+))?()"
)
_MIRROR_PARAMETER: Final = "_x_tr_"


class NormalizedUrl(NamedTuple):
    """A cited page: its canonical URL, its host without ``www.``, its registrable domain.

    ``is_opaque``: a redirect whose target the URL hides, so that host and domain are only the redirect's.
    """

    normalized: str
    host: str
    domain: str
    is_opaque: bool = False


class _Url(NamedTuple):
    """A parsed URL of a public host; ``query`` and ``fragment`` without their marks, ``size`` as it is printed."""

    site: Site
    port: str
    path: str
    query: str
    fragment: str
    size: int


def normalize_url(raw: str) -> NormalizedUrl | None:
    """The canonical form of ``raw``, or None when it names no page of the web (3-results §3.3).

    Idempotent and total: any text is accepted, nothing is raised. https, no ``www.``, default
    port, credentials, fragment (except a client-side route ``#/…`` or ``#!…``), tracking
    parameters (of the route, too) or trailing slash; the order of the other parameters is kept. Redirect wrappers
    give their target where it can be read from the URL.
    """
    return _remembered(raw) if len(raw) <= _MAX_CACHED else _normalized(raw)


def _normalized(raw: str) -> NormalizedUrl | None:
    text = raw.strip(_OUTER)
    for _ in range(MAX_URL_LENGTH):
        url = _parse(text)
        target = _wrapped_target(url) if url else None
        if url is None or target is None or len(target) >= url.size:
            return _canonical(url) if url else None
        text = target
    return None


# An answer's sources are mostly those of yesterday's answers.
_remembered = lru_cache(maxsize=16384)(_normalized)


def _parse(text: str) -> _Url | None:
    absolute = _absolute(text) if 0 < len(text) <= MAX_URL_LENGTH else None
    if absolute is None:
        return None
    parts = _PLAIN.fullmatch(absolute) or _PARTS.fullmatch(_printed(absolute))
    site = site_of(parts[1]) if parts else None
    if parts is None or site is None:
        return None
    path, query = parts[3].rstrip("/") or "/", parts[4] or ""
    if "amp;" in query:
        query = _ESCAPED_AMPERSAND.sub("", query)
    return _Url(site, parts[2] or "", path, query, parts[5] or "", parts.end())


def _printed(absolute: str) -> str:
    """As a browser's parser prints it; empty where it refuses."""
    try:
        return ada_url.URL(absolute).href
    except (ValueError, UnicodeEncodeError):
        return ""


def _absolute(text: str) -> str | None:
    if _WEB.match(text):
        return text
    if text.startswith("//"):
        return f"https:{text}"
    if _OTHER_SCHEME.match(text) and not _HOST_AND_PORT.match(text):
        return None
    host = _BARE_HOST.match(text)
    return f"https://{text}" if host and has_known_suffix(host[1]) else None


def _canonical(url: _Url) -> NormalizedUrl | None:
    site = url.site
    netloc = f"{site.host}:{url.port}" if url.port not in ("", "443") else site.host
    query = _without_tracking(url.query, site.tracking)
    route = _route(url.fragment, site.tracking)
    normalized = f"https://{netloc}{_upper_escapes(url.path)}{'?' + _upper_escapes(query) if query else ''}{route}"
    if len(normalized) > MAX_URL_LENGTH:
        return None
    return NormalizedUrl(normalized, site.host, site.domain, site.hides_target(url.path))


def _upper_escapes(text: str) -> str:
    return _ESCAPE.sub(lambda escape: escape[0].upper(), text) if "%" in text else text


def _route(fragment: str, local: frozenset[str]) -> str:
    """A client-side route with a path and a query of its own, cleaned like the page's."""
    if not fragment.startswith(("/", "!")):
        return ""
    route, _, query = fragment.split(":~:", 1)[0].partition("?")
    query = _without_tracking(query, local)
    path = f"#{route}".rstrip("/")
    if not query:
        return "" if path in ("#", "#!") else _upper_escapes(path)
    return _upper_escapes(f"{path}/?{query}" if path in ("#", "#!") else f"{path}?{query}")


def _without_tracking(query: str, local: frozenset[str]) -> str:
    if not query:
        return ""
    return "&".join(part for part in query.split("&") if part and not _tracks(part, local))


def _tracks(part: str, local: frozenset[str]) -> bool:
    name = part.partition("=")[0]
    if "%" in name or "+" in name:
        name = unquote_plus(name)
    return name.lower() in local or _tracks_anywhere(name)


@lru_cache(maxsize=4096)
def _tracks_anywhere(name: str) -> bool:
    return TRACKING.fullmatch(name) is not None


def _wrapped_target(url: _Url) -> str | None:
    site = url.site
    if not (site.wrappers or site.embedding or site.is_mirror):
        return None
    targets = (
        target
        for wrapper in site.wrappers
        if wrapper.path.fullmatch(url.path)
        for target in _parameter_targets(url.query, wrapper)
    )
    return next(targets, None) or _embedded_target(url) or _mirrored_target(url)


def _parameter_targets(query: str, wrapper: Wrapper) -> Iterator[str]:
    values = dict(reversed([_pair(part) for part in query.split("&")]))
    for name in wrapper.parameters:
        target = _decoded(values.get(name, "")).strip(_OUTER)
        if _WEB.match(target) and _parse(target):
            yield target


def _pair(part: str) -> tuple[str, str]:
    name, _, value = part.partition("=")
    return unquote_plus(name), unquote_plus(value)


def _decoded(value: str) -> str:
    """Bing writes its target as ``a1`` and URL-safe base64; others write it plainly."""
    if not value.startswith("a1"):
        return value
    try:
        padded = value[2:] + "=" * (-len(value[2:]) % 4)
        return base64.urlsafe_b64decode(padded).decode()
    except (binascii.Error, ValueError):
        return ""


def _embedded_target(url: _Url) -> str | None:
    address = f"{url.path}?{url.query}" if url.query else url.path
    for embedding in url.site.embedding:
        found = embedding.path.fullmatch(address)
        target = unquote(found[1]) if found else ""
        absolute = target if _WEB.match(target) else f"https://{target}"
        if found and _parse(absolute):
            return absolute
    return None


def _mirrored_target(url: _Url) -> str | None:
    """``www-acme-com.translate.goog`` shows ``www.acme.com``: dots are written ``-``, hyphens ``--``."""
    if not url.site.is_mirror:
        return None
    mirrored = url.site.host.removesuffix(MIRROR).replace("--", "\0").replace("-", ".").replace("\0", "-")
    query = "&".join(part for part in url.query.split("&") if part and not part.startswith(_MIRROR_PARAMETER))
    target = f"https://{mirrored}{url.path}{'?' + query if query else ''}"
    return target if _parse(target) else None
