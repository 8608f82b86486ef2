"""Registrable domains by the bundled public suffix list, and whose a host is (3-results §3.3)."""

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Literal

import ada_url
import tldextract

Owner = Literal["own", "competitor", "other"]

# Private suffixes count: two people's github.io or myshopify.com sites are two sources.
_EXTRACT: Final = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True)
_PUBLIC_HOST: Final = re.compile(r"(?:[a-z0-9_-]+\.)+[a-z0-9_-]+")
_MAX_HOST: Final = 253
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


@lru_cache(maxsize=16384)
def registrable_domain(host: str) -> str:
    """The domain somebody registered: ``example.co.uk`` of ``a.b.example.co.uk``.

    An address is its own domain; below an unknown suffix the last two labels are taken, which
    is the list's default rule; a bare suffix such as ``github.io`` stands for itself.
    """
    if is_address(host):
        return host
    found = _EXTRACT.extract_str(host)
    if found.suffix:
        return f"{found.domain}.{found.suffix}" if found.domain else host
    return ".".join(host.split(".")[-2:])


@lru_cache(maxsize=16384)
def has_known_suffix(host: str) -> bool:
    """Whether ``host`` lies below a public suffix, so that bare text may be taken for a host."""
    found = _EXTRACT.extract_str(host)
    return bool(found.suffix and found.domain)


def is_public_host(host: str) -> bool:
    """Whether ``host``, in lower case and punycode, is a name with a dot or an address (IPv6 in brackets, and global).

    URL parsers accept more than a name server would: ``hicloud.com(grsutil``.
    """
    if host.startswith("["):
        return is_address(host) and ipaddress.ip_address(host.strip("[]")).is_global
    return len(host) <= _MAX_HOST and _PUBLIC_HOST.fullmatch(host) is not None


def titled_host(title: str | None) -> str | None:
    """The host a link's title consists of (``wikipedia.org``), or None for any other title."""
    host = host_of_entry(title) if title and len(title) <= _MAX_HOST else ""
    found = _EXTRACT.extract_str(host, include_psl_private_domains=False)
    return host if found.suffix and found.domain else None


def is_address(host: str) -> bool:
    """Whether ``host`` is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def owner_of(host: str, own_domains: Iterable[str], competitor_domains: Iterable[str]) -> Owner:
    """Whose site ``host`` is; subdomains belong to their parent, lookalikes to nobody.

    The most specific listed domain decides, the brand's own on a tie. Listed entries may be
    written as URLs; one that names a path or a bare public suffix claims nothing.
    """
    claims = _claims(tuple(own_domains), tuple(competitor_domains))
    subject = host_of_entry(host)
    while subject:
        if subject in claims:
            return claims[subject]
        subject = subject.partition(".")[2]
    return "other"


@lru_cache(maxsize=1024)
def _claims(own: tuple[str, ...], competitors: tuple[str, ...]) -> dict[str, Owner]:
    claims: dict[str, Owner] = {host_of_entry(entry): "competitor" for entry in competitors}
    claims.update({host_of_entry(entry): "own" for entry in own})
    claims.pop("", None)
    return claims


@lru_cache(maxsize=16384)
def host_of_entry(entry: str) -> str:
    """The canonical host of a listed domain (``*.Acme.com``, ``https://acme.com/``), or ``""``."""
    bare = entry.strip().removeprefix("*.").lstrip(".")
    try:
        url = ada_url.URL(bare if _SCHEME.match(bare) else f"https://{bare}")
    except (ValueError, UnicodeEncodeError):
        return ""
    host = canonical_host(url.hostname)
    claims_a_host = url.pathname in ("", "/") and is_public_host(host)
    return host if claims_a_host and _is_claimable(host) else ""


def canonical_host(host: str) -> str:
    """Without the root dot and without ``www.``, as long as a registrable name remains."""
    host = host.rstrip(".")
    while host.startswith("www.") and _is_claimable(host[4:]):
        host = host[4:]
    return host


@lru_cache(maxsize=16384)
def _is_claimable(host: str) -> bool:
    if "." not in host:
        return False
    found = _EXTRACT.extract_str(host, include_psl_private_domains=False)
    return bool(found.domain) or not found.suffix
