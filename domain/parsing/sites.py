"""What the rules of URL normalisation say of a host, looked up once (3-results §3.3)."""

import re
from dataclasses import dataclass
from functools import lru_cache

from domain.parsing.domains import canonical_host, is_public_host, registrable_domain
from domain.parsing.url_rules import EMBEDDING, HOST_TRACKING, MIRROR, OPAQUE, WRAPPERS, Wrapper


@dataclass(frozen=True, slots=True)
class Site:
    """A public host without ``www.``, and the rules that hold for its URLs."""

    host: str
    domain: str
    tracking: frozenset[str]
    wrappers: tuple[Wrapper, ...]
    embedding: tuple[Wrapper, ...]
    opaque: tuple[Wrapper, ...]
    is_mirror: bool

    def hides_target(self, path: str) -> bool:
        """Whether ``path`` is a redirect to somewhere the URL does not tell."""
        return any(wrapper.path.fullmatch(path) for wrapper in self.opaque)


@lru_cache(maxsize=16384)
def site_of(hostname: str) -> Site | None:
    """The site of a host as a URL parser prints it, or None when it is no name or address of the public web."""
    if not is_public_host(hostname.removesuffix(".")):
        return None
    host = canonical_host(hostname)
    return Site(
        host,
        registrable_domain(host),
        _tracking(host),
        _at(host, WRAPPERS),
        _at(host, EMBEDDING),
        _at(host, OPAQUE),
        re.fullmatch(r"[a-z0-9-]+" + re.escape(MIRROR), host) is not None,
    )


def _tracking(host: str) -> frozenset[str]:
    names = (names for known, names in HOST_TRACKING.items() if host == known or host.endswith("." + known))
    return next(names, frozenset())


def _at(host: str, wrappers: tuple[Wrapper, ...]) -> tuple[Wrapper, ...]:
    return tuple(wrapper for wrapper in wrappers if wrapper.host.fullmatch(host))
