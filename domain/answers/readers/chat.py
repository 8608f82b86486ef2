"""Everything shaped like OpenAI chat completions: text, end and faults. Where the sources stand: `chat_flavours`."""

import re
from collections.abc import Iterable
from typing import Final

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.faults import Fault, fault_of
from domain.answers.fields import Node, node_at, nodes_at, text_at, words
from domain.answers.readers.base import Reader, join_pieces, last_finish, last_text
from domain.answers.readers.chat_flavours import flavour_of

# A first thought, closed or cut; some servers swallow the opening tag.
_THINKING: Final = re.compile(
    r"\A\s*<think>.*?(?:</think>\s*|\Z)|\A(?:(?!<think>)[^<]|<(?!/?think>))*^</think>\s*\n", re.S | re.M
)
_SPOKEN_PARTS: Final = ("", "text", "output_text")
_PART_PATHS: Final = ((), ("text",), ("text", "value"), ("text", "content"))
_THOUGHTS: Final = ("thinking", "reasoning", "search_result", "THINK")


def _matches(document: Document) -> bool:
    return any(isinstance(event.get("choices"), list) for event in document.events)


def _read(document: Document) -> Draft:
    events = document.events
    choices = _first_alternative(events)
    text = without_thinking(_text(choices))
    said = _said(choices)
    flavour = flavour_of(events, said)
    return Draft(
        wire=flavour.wire,
        text=text,
        citations=flavour.cited(events, said, text),
        retrieved=flavour.retrieved(events, said),
        search_queries=tuple(flavour.queries(events, said)),
        model=last_text(events, "model"),
        finish_reason=last_finish(choices, "finish_reason") or last_finish(choices, "finish_details", "type"),
        request_id=last_text(events, "id"),
        refusal="".join(text_at(message, "refusal") for message in said),
        tool_calls=any(message.get("tool_calls") or message.get("function_call") for message in said),
        fault=_choice_fault(choices),
    )


def without_thinking(text: str) -> str:
    """The text without the reasoning that a model writes in front of its answer."""
    return _THINKING.sub("", text, count=1) if "think>" in text else text


def _first_alternative(events: Iterable[Node]) -> list[Node]:
    """The choices of the lowest index; other alternatives are not what a person would have seen."""
    choices = [choice for event in events for choice in nodes_at(event, "choices")]
    first = min((index for choice in choices if isinstance(index := choice.get("index"), int)), default=0)
    return [choice for choice in choices if choice.get("index") in (first, None)]


def _said(choices: Iterable[Node]) -> list[Node]:
    """Messages and deltas; Perplexity sends both in one choice."""
    return [node for choice in choices for key in ("message", "delta") if (node := node_at(choice, key))]


def _text(choices: list[Node]) -> str:
    """The joined deltas, or the message where that says more: some streams repeat it cumulatively."""
    deltas = join_deltas([_content(choice, "delta") for choice in choices])
    message = _repeated([_content(choice, "message") for choice in choices])
    return max(deltas, message, _plain(choices), key=len)


def _repeated(messages: list[str]) -> str:
    """Whole messages: one said several times, or written further each time."""
    different = list(dict.fromkeys(filter(None, messages)))
    return different[0] if len(different) == 1 else join_pieces(messages)


def join_deltas(pieces: list[str]) -> str:
    """Deltas joined; a last one that repeats the whole text (a summary at the end) is dropped."""
    joined = "".join(pieces)
    last = next((piece for piece in reversed(pieces) if piece), "")
    doubled = len(last) > 1 and len(joined) == 2 * len(last) and joined.startswith(last) and pieces.count(last) == 1
    return last if doubled else joined


def _plain(choices: list[Node]) -> str:
    """The text of completions without messages, and MiniMax's lists of messages."""
    messages = [text_at(message, "text") for choice in choices for message in nodes_at(choice, "messages")]
    return "".join(text_at(choice, "text") for choice in choices) or join_pieces(messages)


def _content(choice: Node, key: str) -> str:
    said = node_at(choice, key)
    content = said.get("content")
    if text_at(said, "type") in _THOUGHTS:
        return ""
    if isinstance(content, list):
        return "".join(_part(part) for part in content)
    return text_at(content) or text_at(said, "audio", "transcript")


def _part(part: object) -> str:
    """The text of a content part, whose `text` is a string or, in older dumps and at a gateway, an object."""
    if text_at(part, "type") not in _SPOKEN_PARTS:
        return ""
    return next(filter(None, (text_at(part, *path) for path in _PART_PATHS)), "")


def _choice_fault(choices: list[Node]) -> Fault | None:
    return next((fault for choice in choices if choice.get("error") and (fault := fault_of(choice))), None)


READER = Reader("openai.chat", _matches, _read, words("choices"))
