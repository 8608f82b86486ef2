"""Dead letters in a terminal and as JSON; bodies are shown bounded and defused."""

from dataclasses import asdict
from typing import Any, Final

import msgspec
from rich.markup import escape
from rich.table import Table

from commands.dead_letter_entries import Entry, Found, message_of

SHOWN_CHARS: Final = 4_000
# A table's cell; `giveway dlq show` has the whole reason.
REASON_CHARS: Final = 90


def row(number: int, entry: Entry) -> dict[str, Any]:
    """One letter of a listing. `position`: its rank by age, 1 the oldest."""
    return {"position": number, **asdict(entry)}


def table(entries: list[tuple[int, Entry]]) -> Table:
    """The letters of a listing."""
    shown = Table(box=None)
    for name in ("", "id", "queue", "shard", "tenant/brand", "died first", "tries", "size"):
        shown.add_column(name, no_wrap=True)
    shown.add_column("reason", overflow="fold")
    for number, entry in entries:
        whose = "/".join(_text(part) for part in (entry.tenant_id, entry.brand_id) if part is not None)
        cells = (entry.shard, whose, _moment(entry), entry.tries, _size(entry))
        shown.add_row(str(number), entry.id, entry.queue, *map(_text, cells), escape(entry.reason[:REASON_CHARS]))
    return shown


def facts(found: Found) -> Table:
    """Everything about one letter but its body."""
    shown = Table(box=None, show_header=False)
    for name, value in asdict(found.entry).items():
        if value is not None:
            shown.add_row(name.replace("_", " "), escape(_text(value)))
    letter = found.letter
    for name, value in {} if letter is None else {**letter.headers, **(_message(found) or {})}.items():
        shown.add_row(escape(name), escape(_text(value)))
    return shown


def details(found: Found) -> dict[str, Any]:
    """The same for machines. `message` null: the body is no result. `truncated`: `body` is its begin only."""
    letter = found.letter
    body, truncated = ("", False) if letter is None else body_of(letter.body)
    headers = {} if letter is None else {name: _plain(value) for name, value in letter.headers.items()}
    return {
        **asdict(found.entry),
        "copies": found.copies,
        "headers": headers,
        "message": _message(found),
        "body": body,
        "truncated": truncated,
    }


def body_of(body: bytes) -> tuple[str, bool]:
    """The body's begin as text that is safe to print, and whether there is more."""
    text = body[: 4 * SHOWN_CHARS].decode("utf-8", "replace")[:SHOWN_CHARS]
    safe = "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in text)
    return safe, len(body) > len(text.encode())


def _message(found: Found) -> dict[str, Any] | None:
    """The result without its raw answer, which the body shows."""
    message = None if found.letter is None else message_of(found.letter)
    if message is None:
        return None
    fields: dict[str, Any] = msgspec.to_builtins(message)
    raw = fields.pop("raw")
    return {**fields, "raw_chars": None if raw is None else len(raw)}


def _plain(value: Any) -> Any:
    """A header's value as JSON can say it."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _moment(entry: Entry) -> str:
    return "" if entry.died_at is None else f"{entry.died_at:%Y-%m-%d %H:%M:%S}"


def _size(entry: Entry) -> str:
    return "" if entry.size is None else f"{entry.size:,}"


def _text(value: object) -> str:
    return "" if value is None else str(value)
