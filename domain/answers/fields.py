"""Typed access to JSON nobody promised the shape of: a wrong type reads as absent, never as an error."""

import re
from collections.abc import Iterable

import orjson

from domain.answers.model import Source

Node = dict[str, object]

_SURROGATES = re.compile("[\ud800-\udfff]")


def at(value: object, *path: str | int) -> object:
    """The value at `path`, or None as soon as a step is missing or of another type."""
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def text_at(value: object, *path: str | int) -> str:
    found = at(value, *path)
    return found if isinstance(found, str) else ""


def optional_text_at(value: object, *path: str | int) -> str | None:
    return clean(text_at(value, *path)) or None


def node_at(value: object, *path: str | int) -> Node:
    found = at(value, *path)
    return found if isinstance(found, dict) else {}


def nodes_at(value: object, *path: str | int) -> list[Node]:
    """The objects of the list at `path`; entries of another type are left out."""
    found = at(value, *path)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def strings_at(value: object, *path: str | int) -> list[str]:
    found = at(value, *path)
    return [clean(entry) for entry in found if isinstance(entry, str)] if isinstance(found, list) else []


def argument(arguments: object, name: str) -> list[str]:
    """A tool call's argument, where the call carries its arguments as an object or as a JSON string."""
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except (orjson.JSONDecodeError, ValueError):
            return []
    found = at(arguments, name)
    return [clean(found)] if isinstance(found, str) else []


def clean(text: str) -> str:
    """Text a UTF-8 database accepts: surrogate pairs split by a stream are joined, the rest is U+FFFD."""
    if _SURROGATES.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", "\ufffd")


def source(entry: Node, *, url: str = "url", title: str = "title", site: str = "site_name") -> Source:
    """A source whose parts stand under the given keys; an empty URL is None, so that it is still counted."""
    return Source(
        (clean(text_at(entry, url)).strip() or None),
        optional_text_at(entry, title),
        optional_text_at(entry, site),
    )


def sources(entries: Iterable[Node], *, url: str = "url", title: str = "title") -> tuple[Source, ...]:
    return tuple(source(entry, url=url, title=title) for entry in entries)


def plain_sources(urls: Iterable[str]) -> tuple[Source, ...]:
    return tuple(Source(url.strip() or None) for url in urls)


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())
