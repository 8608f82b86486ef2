"""Anthropic messages with web search; whole and streamed."""

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.fields import Node, argument, node_at, nodes_at, source, sources, text_at
from domain.answers.model import Source
from domain.answers.readers.base import Reader, last_text


def _matches(document: Document) -> bool:
    root = document.root
    whole = root.get("type") == "message" and isinstance(root.get("content"), list)
    return whole or any(
        text_at(event, "type") in ("message_start", "content_block_start", "content_block_delta")
        for event in document.events
    )


def _read(document: Document) -> Draft:
    events = document.events
    blocks = nodes_at(document.root, "content") or _assembled(events)
    heads = (*events, *(node_at(event, "message") for event in events))
    ends = (*events, *(node_at(event, "delta") for event in events))
    return Draft(
        wire="anthropic.messages",
        text="".join(text_at(block, "text") for block in _of(blocks, "text")),
        citations=tuple(_cited(blocks)),
        retrieved=tuple(_retrieved(blocks)),
        search_queries=tuple(
            query for block in _of(blocks, "server_tool_use") for query in argument(block.get("input"), "query")
        ),
        model=last_text(heads, "model"),
        finish_reason=last_text(ends, "stop_reason"),
        request_id=last_text(heads, "id"),
        tool_calls=bool(_of(blocks, "tool_use")),
    )


def _of(blocks: list[Node], kind: str) -> list[Node]:
    return [block for block in blocks if block.get("type") == kind]


def _cited(blocks: list[Node]) -> list[Source]:
    notes = [note for block in _of(blocks, "text") for note in nodes_at(block, "citations")]
    return [source(note, title="title" if note.get("title") else "document_title") for note in notes]


def _retrieved(blocks: list[Node]) -> list[Source]:
    results = [entry for block in _of(blocks, "web_search_tool_result") for entry in nodes_at(block, "content")]
    return list(sources(results))


def _assembled(events: tuple[Node, ...]) -> list[Node]:
    """The blocks of a stream: each start block, with the deltas of its index applied."""
    blocks: list[Node] = []
    for event in events:
        if event.get("type") == "content_block_start":
            blocks.append(dict(node_at(event, "content_block")))
        elif event.get("type") == "content_block_delta":
            if not blocks:  # a capture that began late
                blocks.append({"type": "text"})
            _apply(blocks[-1], node_at(event, "delta"))
    return blocks


def _apply(block: Node, delta: Node) -> None:
    if delta.get("type") == "text_delta":
        block["text"] = text_at(block, "text") + text_at(delta, "text")
    elif delta.get("type") == "citations_delta":
        so_far = block.get("citations")
        cited = so_far if isinstance(so_far, list) else []
        cited.append(node_at(delta, "citation"))
        block["citations"] = cited
    elif delta.get("type") == "input_json_delta":
        begun = block.get("input")
        block["input"] = (begun if isinstance(begun, str) else "") + text_at(delta, "partial_json")


READER = Reader("anthropic.messages", _matches, _read)
