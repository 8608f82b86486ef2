"""One text under a key of its own: model hosts from before chat, and those that pass a model's body on as it is."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import at, clean, words
from domain.answers.readers.base import Reader, join_pieces, last_finish, last_text
from domain.answers.readers.chat import without_thinking

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """Keys that only this host's bodies have together, where their text stands, and where the reason of its end."""

    marks: frozenset[str]
    text: Path
    finish: Path
    platform: str | None = None


_SHAPES: Final = (
    Shape(words("generation generation_token_count"), ("generation",), ("stop_reason",), "bedrock"),  # Llama
    Shape(words("results"), ("results", 0, "outputText"), ("results", 0, "completionReason"), "bedrock"),  # Titan
    Shape(words("outputText"), ("outputText",), ("completionReason",), "bedrock"),
    Shape(words("results"), ("results", 0, "generated_text"), ("results", 0, "stop_reason")),  # watsonx
    Shape(words("generated_text"), ("generated_text",), ("details", "finish_reason")),  # Hugging Face
    Shape(words("result success"), ("result", "response"), ()),  # Cloudflare
    Shape(words("input output status"), ("output",), ("status",)),  # Replicate
)


def _matches(document: Document) -> bool:
    return _shape_of(document) is not None


def _shape_of(document: Document) -> Shape | None:
    return next((shape for shape in _SHAPES if shape.marks <= document.keys and _pieces(document, shape)), None)


def _pieces(document: Document, shape: Shape) -> list[str]:
    return [piece for event in document.events for piece in _texts(at(event, *shape.text))]


def _texts(value: object) -> Iterable[str]:
    """A text, or a list of nothing but its pieces."""
    listed = value if isinstance(value, list) else [value]
    return [clean(piece) for piece in listed if isinstance(piece, str)] if _all_text(listed) else []


def _all_text(listed: list[object]) -> bool:
    return all(isinstance(piece, str) for piece in listed)


def _read(document: Document) -> Draft:
    events, shape = document.events, _shape_of(document)
    if shape is None:
        return Draft("completion")
    return Draft(
        wire="completion",
        text=without_thinking(join_pieces(_pieces(document, shape))),
        model=last_text(events, "model") or last_text(events, "model_id"),
        finish_reason=last_finish(events, *shape.finish) if shape.finish else None,
        request_id=last_text(events, "id"),
        platform=shape.platform,
    )


READER = Reader("completion", _matches, _read, frozenset().union(*(shape.marks for shape in _SHAPES)))
