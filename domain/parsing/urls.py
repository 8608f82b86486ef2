"""One canonical form for every cited page (3-results §3.3)."""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote, unquote_plus

import ada_url

from domain.parsing.domains import canonical_host, has_known_suffix, is_public_host, owner_of, registrable_domain
from domain.parsing.url_rules import HOST_TRACKING, OPAQUE, TRACKING, WRAPPERS, Wrapper

__all__ = ["MAX_URL_LENGTH", "NormalizedUrl", "normalize_url", "owner_of"]

MAX_URL_LENGTH: Final = 8192
"""Longer URLs, before or after normalisation, are refused (characters)."""

_OUTER: Final = "".join(map(chr, range(0x21))) + "\u00a0\u200b\u3000\ufeff"
_WEB: Final = re.compile(r"https?:", re.IGNORECASE)
_HOST_AND_PORT: Final = re.compile(r"[^/?#\s:@]+\.[^/?#\s:@]+:\d+(?:[/?#]|\Z)")
_OTHER_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_BARE_HOST: Final = re.compile(r"(?:[^\s/?#@\\]*@)?([^\s/?#@:\\]+)")
_ESCAPE: Final = re.compile(r"%[0-9a-fA-F]{2}")
_AMP_CACHE: Final = re.compile(
    r"(?:google\.(?:com?\.)?[a-z]{2,3}/amp|(?:[^/]+\.)?cdn\.ampproject\.org/[a-z])/s/([^/].*)"
)


@dataclass(frozen=True, slots=True)
class NormalizedUrl:
    """A cited page: its canonical URL, its host without ``www.``, its registrable domain.

    ``is_opaque``: a redirect whose target the URL hides, so that host and domain are only the redirect's.
    """

    normalized: str
    host: str
    domain: str
    is_opaque: bool = False


def normalize_url(raw: str) -> NormalizedUrl | None:
    """The canonical form of ``raw``, or None when it names no page of the web (3-results §3.3).

    Idempotent and total: any text is accepted, nothing is raised. https, no ``www.``, default
    port, credentials, fragment (except a client-side route ``#/…`` or ``#!…``), tracking
    parameters (of the route, too) or trailing slash; the order of the other parameters is kept. Redirect wrappers
    give their target where it can be read from the URL.
    """
    text = raw.strip(_OUTER)
    for _ in range(MAX_URL_LENGTH):
        url = _parse(text)
        target = _wrapped_target(url) if url else None
        if url is None or target is None or len(target) >= len(text):
            return _canonical(url) if url else None
        text = target
    return None


def _parse(text: str) -> ada_url.URL | None:
    absolute = _absolute(text) if 0 < len(text) <= MAX_URL_LENGTH else None
    if absolute is None:
        return None
    try:
        url = ada_url.URL(absolute)
    except (ValueError, UnicodeEncodeError):
        return None
    return url if is_public_host(url.hostname.rstrip(".")) else None


def _absolute(text: str) -> str | None:
    if _WEB.match(text):
        return text
    if text.startswith("//"):
        return f"https:{text}"
    if _OTHER_SCHEME.match(text) and not _HOST_AND_PORT.match(text):
        return None
    host = _BARE_HOST.match(text)
    return f"https://{text}" if host and has_known_suffix(host[1]) else None


def _canonical(url: ada_url.URL) -> NormalizedUrl | None:
    host = canonical_host(url.hostname)
    netloc = f"{host}:{url.port}" if url.port not in ("", "443") else host
    path = _upper_escapes(_trimmed_path(url))
    query = _upper_escapes(_without_tracking(url.search[1:], host))
    normalized = f"https://{netloc}{path}{'?' + query if query else ''}{_route(url.hash, host)}"
    if len(normalized) > MAX_URL_LENGTH:
        return None
    return NormalizedUrl(normalized, host, registrable_domain(host), _is_opaque(host, path))


def _trimmed_path(url: ada_url.URL) -> str:
    return url.pathname.rstrip("/") or "/"


def _upper_escapes(text: str) -> str:
    return _ESCAPE.sub(lambda escape: escape[0].upper(), text)


def _route(fragment: str, host: str) -> str:
    """A client-side route with a path and a query of its own, cleaned like the page's."""
    route, _, query = fragment.split(":~:", 1)[0].partition("?")
    if not route.startswith(("#/", "#!")):
        return ""
    query = _without_tracking(query, host)
    path = route.rstrip("/")
    if not query:
        return "" if path in ("#", "#!") else _upper_escapes(path)
    return _upper_escapes(f"{path}/?{query}" if path in ("#", "#!") else f"{path}?{query}")


def _without_tracking(query: str, host: str) -> str:
    local = _host_tracking(host)
    return "&".join(part for part in query.split("&") if part and not _tracks(part, local))


def _host_tracking(host: str) -> frozenset[str]:
    for known, names in HOST_TRACKING.items():
        if host == known or host.endswith("." + known):
            return names
    return frozenset()


def _tracks(part: str, local: frozenset[str]) -> bool:
    name = unquote_plus(part.split("=", 1)[0])
    return name.lower() in local or TRACKING.fullmatch(name) is not None


def _wrapped_target(url: ada_url.URL) -> str | None:
    host, path = canonical_host(url.hostname), _trimmed_path(url)
    candidates = (
        target
        for wrapper in _wrappers_at(host)
        if wrapper.path.fullmatch(path)
        for target in _parameter_targets(url.search[1:], wrapper)
    )
    return next(candidates, None) or _amp_target(host + path + url.search)


def _is_opaque(host: str, path: str) -> bool:
    return any(wrapper.host.fullmatch(host) and wrapper.path.fullmatch(path) for wrapper in OPAQUE)


@lru_cache(maxsize=16384)
def _wrappers_at(host: str) -> tuple[Wrapper, ...]:
    return tuple(wrapper for wrapper in WRAPPERS if wrapper.host.fullmatch(host))


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


def _amp_target(address: str) -> str | None:
    cached = _AMP_CACHE.fullmatch(address)
    target = f"https://{unquote(cached[1])}" if cached else ""
    return target if _parse(target) else None
