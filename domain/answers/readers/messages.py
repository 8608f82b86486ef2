"""Messages without a completion around them: OpenAI's threads, lists of turns, LangChain, Ollama, Vercel's AI SDK."""

import re
from typing import Final

from domain.answers.document import Document, Framing, load_json
from domain.answers.draft import Draft
from domain.answers.fields import Node, node_at, nodes_at, optional_text_at, source, sources, text_at, words
from domain.answers.model import Source
from domain.answers.readers.base import Reader, last_finish, last_text, nested
from domain.answers.readers.chat import without_thinking

_ASSISTANTS: Final = ("assistant", "ai", "model", "AIMessage", "AIMessageChunk", "bot")
_LETTERED: Final = re.compile(r"(?:[0-9a-z]:[{\[\"].*\n?){2,}")


def _is_thread(document: Document) -> bool:
    return any(text_at(entry, "object").startswith("thread.message") for entry in _thread_entries(document))


def _thread_entries(document: Document) -> list[Node]:
    """A list's messages, newest first, or the events of a run."""
    return nodes_at(document.root, "data") or list(document.events)


def _read_thread(document: Document) -> Draft:
    entries = _thread_entries(document)
    whole = [entry for entry in entries if entry.get("object") == "thread.message" and _is_assistant(entry)]
    written = [entry for entry in whole if nodes_at(entry, "content")]
    deltas = [node_at(entry, "delta") for entry in entries if entry.get("object") == "thread.message.delta"]
    said = written[:1] if not document.streamed else written[-1:] or deltas
    parts = [node_at(part, "text") for message in said for part in nodes_at(message, "content")]
    return Draft(
        wire="openai.assistants",
        text="".join(text_at(part, "value") for part in parts),
        citations=tuple(_noted(note) for part in parts for note in nodes_at(part, "annotations") if _is_page(note)),
        model=last_text(entries, "model"),
        finish_reason=last_text((entry for entry in entries if text_at(entry, "object") == "thread.run"), "status"),
        request_id=last_text(whole, "id"),
    )


def _is_page(note: Node) -> bool:
    return note.get("type") == "url_citation"


def _noted(note: Node) -> Source:
    return source(node_at(note, "url_citation") or note)


def _is_assistant(message: Node) -> bool:
    """By its role, or its class in LangChain's dumps."""
    return (
        any(text_at(message, key) in _ASSISTANTS for key in ("role", "type")) or text_at(message, "id") in _ASSISTANTS
    )


def _turns(document: Document) -> list[Node]:
    """The turns of a conversation: the body's own list, or one under `messages`; LangChain's stand in `data`."""
    listed = nodes_at(document.root, "messages") or list(document.events)
    return [_turn(entry) for entry in listed]


def _turn(entry: Node) -> Node:
    """A turn as it is, or out of LangChain's dumps, which name its class beside it."""
    if "data" in entry:
        return node_at(entry, "data") | {"type": text_at(entry, "type")}
    return node_at(entry, "kwargs") | {"type": text_at(entry, "id", -1)} if "kwargs" in entry else entry


def _is_conversation(document: Document) -> bool:
    return document.framing is not Framing.SSE and any(
        _is_assistant(turn) and isinstance(turn.get("content"), str | list) for turn in _turns(document)
    )


def _read_conversation(document: Document) -> Draft:
    """The last turn of the assistant that says anything."""
    turns = [turn for turn in _turns(document) if _is_assistant(turn)]
    last = next((turn for turn in reversed(turns) if _turn_text(turn)), turns[-1])
    parts = nodes_at(last, "content")
    notes = [note for part in parts for key in ("citations", "annotations") for note in nodes_at(part, key)]
    notes += nodes_at(last, "annotations")
    reply = node_at(last, "response_metadata")
    return Draft(
        wire="messages",
        text=without_thinking(_turn_text(last)),
        citations=sources(
            node_at(note, "url_citation") or note for note in notes if "url" in (note | node_at(note, "url_citation"))
        ),
        model=last_text([reply], "model_name") or last_text([last, reply], "model"),
        finish_reason=last_finish([reply, last], "finish_reason") or last_text([reply, last], "stop_reason"),
        request_id=optional_text_at(last, "id"),
        tool_calls=bool(nodes_at(last, "tool_calls")),
        ended=True,
    )


def _turn_text(turn: Node) -> str:
    spoken = (part for part in nodes_at(turn, "content") if text_at(part, "type") in ("text", "output_text", ""))
    return text_at(turn, "content") or "".join(text_at(part, "text") for part in spoken)


def _is_ollama(document: Document) -> bool:
    return any(
        isinstance(event.get("done"), bool) and ("message" in event or isinstance(event.get("response"), str))
        for event in document.events
    )


def _read_ollama(document: Document) -> Draft:
    events = document.events
    pieces = [text_at(event, "message", "content") or text_at(event, "response") for event in events]
    return Draft(
        wire="ollama.chat",
        text=without_thinking("".join(pieces)),
        model=last_text(events, "model"),
        finish_reason=last_text(events, "done_reason"),
        tool_calls=any(nodes_at(event, "message", "tool_calls") for event in events),
        ended=any(event.get("done") is True for event in events),
    )


def _is_ui_stream(document: Document) -> bool:
    kinds = {text_at(event, "type") for event in document.events}
    return document.streamed and "text-delta" in kinds


def _read_ui_stream(document: Document) -> Draft:
    events = document.events
    deltas = [event for event in events if event.get("type") == "text-delta"]
    return Draft(
        wire="vercel.ui-stream",
        text="".join(text_at(event, "delta") or text_at(event, "textDelta") for event in deltas),
        citations=sources(_page(event) for event in events if text_at(event, "type") in ("source-url", "source")),
        finish_reason=last_finish(events, "finishReason"),
        request_id=last_text(nested(events, "messageMetadata"), "messageId"),
        ended=document.done or any(event.get("type") == "finish" for event in events),
    )


def _page(event: Node) -> Node:
    return node_at(event, "source") or event


def _is_lettered(document: Document) -> bool:
    return not document.events and _LETTERED.match(document.text) is not None


def _read_lettered(document: Document) -> Draft:
    """Vercel's older stream: a letter for the kind of each line. `0` text, `h` source, `d` and `e` ends, `3` error."""
    lines = [(line[:1], load_json(line[2:])[0]) for line in document.text.split("\n") if line[1:2] == ":"]
    ends = [value for letter, value in lines if letter in "de" and isinstance(value, dict)]
    return Draft(
        wire="vercel.data-stream",
        text="".join(value for letter, value in lines if letter == "0" and isinstance(value, str)),
        citations=sources(value for letter, value in lines if letter == "h" and isinstance(value, dict)),
        finish_reason="error" if any(letter == "3" for letter, _ in lines) else last_finish(ends, "finishReason"),
        ended=bool(ends),
    )


THREAD = Reader("openai.assistants", _is_thread, _read_thread, words("object data"))
CONVERSATION = Reader("messages", _is_conversation, _read_conversation, words("messages role type data content kwargs"))
OLLAMA = Reader("ollama.chat", _is_ollama, _read_ollama, words("done"))
UI_STREAM = Reader("vercel.ui-stream", _is_ui_stream, _read_ui_stream, words("type"))
LETTERED = Reader("vercel.data-stream", _is_lettered, _read_lettered)
