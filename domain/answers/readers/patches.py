"""Streams of patches to one object, as the chat pages of ChatGPT and DeepSeek send them.

Each event names a path (`p`), an operation (`o`) and a value (`v`); what an event leaves out is as in the event before.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from domain.answers.fields import Node, text_at

_MAX_PATH: Final = 12


class Patched:
    """An object while it is patched. Strings grow as lists of pieces, so that a long answer costs linear time."""

    def __init__(self) -> None:
        self._root: Node = {}
        self._path = ""
        self._operation = ""

    def apply_all(self, events: Iterable[Node]) -> Node:
        """The object after all events."""
        for event in events:
            if "v" in event:
                self.apply(event)
        return _joined(self._root, 0)

    def apply(self, event: Node) -> None:
        if "p" in event:
            self._path, self._operation = text_at(event, "p"), ""
        if "o" in event:
            self._operation = text_at(event, "o").casefold()
        value = event["v"]
        if isinstance(value, dict) and "v" in value and value.keys() <= {"p", "o", "v", "c"}:
            self.apply(value)  # ChatGPT: an event around an event
        elif self._operation in ("patch", "batch") and isinstance(value, list):
            self._apply_each(value, self._path)
        elif "p" not in event and isinstance(value, list) and text_at(value, 0, "p"):
            self._apply_each(value, self._path.split("/", 1)[0])  # DeepSeek: fields of the response itself
        else:
            self._write(_steps(self._path), value, self._operation)

    def _apply_each(self, patches: list[object], base: str) -> None:
        for patch in patches:
            if isinstance(patch, dict) and "v" in patch:
                path = text_at(patch, "p")
                steps = _steps(path if path.startswith("/") else f"{base}/{path}")
                self._write(steps, patch["v"], text_at(patch, "o").casefold())
        self._operation = ""

    def _write(self, steps: list[str], value: object, operation: str) -> None:
        if not steps:
            if isinstance(value, dict):
                self._root |= value
            return
        holder: object = self._root
        for step, following in pairwise(steps):
            holder = _descended(holder, step, following)
        _set(holder, steps[-1], value, operation)


def _steps(path: str) -> list[str]:
    return [step for step in path.split("/") if step][:_MAX_PATH]


def _place(holder: list[object], step: str) -> int | None:
    """The index a step names; -1 is the last entry, and one past the end appends."""
    if not step.lstrip("-").isdigit() or len(step) > 6:
        return None
    index = int(step)
    index = index + len(holder) if index < 0 else index
    return index if 0 <= index <= len(holder) else None


def _descended(holder: object, step: str, following: str) -> object:
    """The container at `step`, made where it is missing."""
    fresh: object = [] if following.lstrip("-").isdigit() else {}
    if isinstance(holder, dict):
        return holder.setdefault(step, fresh)
    if isinstance(holder, list) and (index := _place(holder, step)) is not None:
        if index == len(holder):
            holder.append(fresh)
        return holder[index]
    return {}


class _Pieces(list[str]):
    """A string while it grows."""


def _set(holder: object, step: str, value: object, operation: str) -> None:
    if isinstance(holder, dict):
        holder[step] = _merged(holder.get(step), value, operation or _usual_operation(step))
    elif isinstance(holder, list) and (index := _place(holder, step)) is not None:
        if index == len(holder):
            holder.append(value)
        else:
            holder[index] = _merged(holder[index], value, operation or "append")


def _usual_operation(step: str) -> str:
    """Where no operation is named, written text grows and fields are set."""
    return "append" if step.endswith("content") else "set"


def _merged(old: object, value: object, operation: str) -> object:
    """The new value: strings, lists and objects grow on `append`, all else is replaced."""
    if isinstance(value, dict) and isinstance(old, dict) and operation == "append":
        return old | value
    if isinstance(value, str) and isinstance(old, str | _Pieces) and operation == "append":
        pieces = old if isinstance(old, _Pieces) else _Pieces([old])
        pieces.append(value)
        return pieces
    if isinstance(old, list) and not isinstance(old, _Pieces) and operation == "append":
        old.extend(value if isinstance(value, list) else [value])
        return old
    return value


def _joined(value: object, depth: int) -> Node:
    joined = _plain(value, depth)
    return joined if isinstance(joined, dict) else {}


def _plain(value: object, depth: int) -> object:
    if isinstance(value, _Pieces):
        return "".join(value)
    if depth > _MAX_PATH:
        return value
    if isinstance(value, dict):
        return {key: _plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, depth + 1) for inner in value]
    return value
