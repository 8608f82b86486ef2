"""One text under a key of its own: model hosts before chat came, and those that pass a model's body on as it is."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import Node, at, clean, nodes_at, text_at, words
from domain.answers.readers.base import Reader, join_pieces, last_finish, last_text
from domain.answers.readers.chat import without_thinking

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """Keys that only this host's bodies have together, where the text stands, and how it says that it ended."""

    wire: str
    marks: frozenset[str]
    text: Path
    finish: Path


_SHAPES: Final = (
    Shape("anthropic.complete", words("completion stop_reason"), ("completion",), ("stop_reason",)),
    Shape("bedrock.llama", words("generation generation_token_count"), ("generation",), ("stop_reason",)),
    Shape("bedrock.titan", words("results"), ("results", 0, "outputText"), ("results", 0, "completionReason")),
    Shape("bedrock.titan", words("outputText"), ("outputText",), ("completionReason",)),
    Shape("watsonx.generation", words("results"), ("results", 0, "generated_text"), ("results", 0, "stop_reason")),
    Shape("huggingface.generation", words("generated_text"), ("generated_text",), ("details", "finish_reason")),
    Shape("cloudflare.run", words("result success"), ("result", "response"), ()),
)
_REPLICATE: Final = words("input output status")


def _shape_of(document: Document) -> Shape | None:
    return next((shape for shape in _SHAPES if shape.marks <= document.keys and _pieces(document.events, shape)), None)


def _pieces(events: Iterable[Node], shape: Shape) -> list[str]:
    found = (at(event, *shape.text) for event in events)
    return [piece for piece in found if isinstance(piece, str)]


def _is_completion(document: Document) -> bool:
    return _shape_of(document) is not None


def _read_completion(document: Document) -> Draft:
    events = document.events
    shape = _shape_of(document)
    assert shape is not None  # it matched
    return Draft(
        wire=shape.wire,
        text=without_thinking(join_pieces(_pieces(events, shape))),
        model=last_text(events, "model") or last_text(events, "model_id"),
        finish_reason=last_finish(events, *shape.finish) if shape.finish else None,
        request_id=last_text(events, "id"),
    )


def _is_replicate(document: Document) -> bool:
    root = document.root
    return root.keys() >= _REPLICATE and isinstance(root["output"], str | list) and not nodes_at(root, "output")


def _read_replicate(document: Document) -> Draft:
    """The output is a text or the list of its pieces."""
    output = document.root["output"]
    pieces = output if isinstance(output, list) else [output]
    return Draft(
        wire="replicate.prediction",
        text="".join(clean(piece) for piece in pieces if isinstance(piece, str)),
        model=last_text(document.events, "model"),
        finish_reason=text_at(document.root, "status") or None,
        request_id=last_text(document.events, "id"),
    )


COMPLETION = Reader("completion", _is_completion, _read_completion, frozenset().union(*(s.marks for s in _SHAPES)))
REPLICATE = Reader("replicate.prediction", _is_replicate, _read_replicate, words("output"))
