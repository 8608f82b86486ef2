"""Typed access to JSON nobody promised the shape of: a wrong type reads as absent, never as an error."""

from collections.abc import Iterable

import orjson

from domain.answers.model import Source

Node = dict[str, object]


def at(value: object, *path: str | int) -> object:
    """The value at `path`, or None as soon as a step is missing or of another type."""
    for step in path:
        if type(value) is dict:  # JSON makes no subclasses, and this is the hottest line of all readers
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


def argument(arguments: object, *names: str) -> list[str]:
    """A tool call's argument under the first of `names` it has; the arguments may stand in a JSON string."""
    arguments = unquoted(arguments)
    for name in names:
        found = at(arguments, name)
        if isinstance(found, str):
            return [clean(found)]
        if listed := strings_at(arguments, name):
            return listed
    return []


def unquoted(value: object) -> object:
    """The value that a JSON string holds; anything else as it is, broken JSON as None."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return None


def clean(text: str) -> str:
    """Text a UTF-8 database accepts: surrogate pairs split by a stream are joined, the rest is U+FFFD."""
    try:
        text.encode()  # refuses surrogates, and finds them faster than a pattern does
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", "\ufffd")


def source(entry: Node, *, url: str = "url", title: str = "title", site: str = "site_name") -> Source:
    """A source whose parts stand under the given keys; an empty URL is None, so that it is still counted."""
    return Source(
        _cleaned(entry.get(url)).strip() or None, _cleaned(entry.get(title)) or None, _cleaned(entry.get(site)) or None
    )


def _cleaned(value: object) -> str:
    return clean(value) if isinstance(value, str) else ""


def sources(entries: Iterable[Node], *, url: str = "url", title: str = "title") -> tuple[Source, ...]:
    return tuple(source(entry, url=url, title=title) for entry in entries)


def any_sources(value: object, *, url: str = "url", title: str = "title") -> tuple[Source, ...]:
    """Sources of a list whose entries are URLs or objects."""
    entries = value if isinstance(value, list) else []
    return tuple(
        source(entry, url=url, title=title) if isinstance(entry, dict) else Source(clean(entry).strip() or None)
        for entry in entries
        if isinstance(entry, dict | str)
    )


def plain_sources(urls: Iterable[str]) -> tuple[Source, ...]:
    return tuple(Source(url.strip() or None) for url in urls)


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())
