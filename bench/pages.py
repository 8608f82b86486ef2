"""Which pages the benchmark's answers cite: some of them again and again, as the answers about one brand do."""

from bisect import bisect
from itertools import accumulate
from random import Random
from typing import Final, Literal

Pages = Literal["skewed", "fresh"]
"""`skewed`: four of five citations are of known pages, of which a few are cited most; `fresh`: no page comes again."""

KNOWN_PAGES: Final = 3_000
SITES: Final = 150

# The n-th most cited one is cited 1/n as often as the first.
_BY_RANK: Final = tuple(accumulate(1 / rank for rank in range(1, KNOWN_PAGES + 1)))
_SITES_BY_RANK: Final = tuple(accumulate(1 / rank for rank in range(1, SITES + 1)))
_DOMAINS: Final = ("example.com", "example.org", "example.net", "example.cn")


def cited_pages(random: Random, number: int, count: int, pages: Pages, own_domain: str) -> list[str]:
    """`count` different URLs, as answer `number` lists them; half of the answers add where their readers come from."""
    found: dict[str, None] = {}
    suffix = "?utm_source=assistant" if number % 2 else ""
    while len(found) < count:
        found[_page(random, number, len(found), pages, own_domain) + suffix] = None
    return list(found)


def _page(random: Random, number: int, place: int, pages: Pages, own_domain: str) -> str:
    if pages == "fresh" or place % 5 == 4:
        return f"https://{_host(random, own_domain)}/news/2026/{number}-{place}"
    rank = bisect(_BY_RANK, random.random() * _BY_RANK[-1])
    return f"https://{_host(Random(rank), own_domain)}/articles/best-tools-for-small-teams-{rank}"


def _host(random: Random, own_domain: str) -> str:
    rank = bisect(_SITES_BY_RANK, random.random() * _SITES_BY_RANK[-1])
    return f"www.site{rank}.{_DOMAINS[rank % len(_DOMAINS)]}" if rank else own_domain
