"""Everything shaped like OpenAI chat completions, told apart by where the sources stand.

OpenAI, OpenRouter, DeepSeek and Qwen's compatible mode annotate the message; Perplexity, Doubao, ERNIE v2, Hunyuan,
Zhipu and Groq add lists of their own; Kimi only writes links into the text.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.faults import Fault, fault_of
from domain.answers.fields import (
    Node,
    argument,
    at,
    node_at,
    nodes_at,
    plain_sources,
    sources,
    strings_at,
    text_at,
)
from domain.answers.links import written_sources
from domain.answers.model import Source
from domain.answers.readers.base import Reader, join_pieces, last_list, last_text

Events = tuple[Node, ...]
_THINKING = re.compile(r"\A\s*<think>.*?(?:</think>\s*|\Z)", re.S)


@dataclass(frozen=True, slots=True)
class _Flavour:
    """One platform's additions to the common shape. `cited` gets the events and the answer's text."""

    wire: str
    marks: Callable[[Events], bool]
    cited: Callable[[Events, str], tuple[Source, ...]]
    retrieved: Callable[[Events], tuple[Source, ...]] = lambda events: ()
    queries: Callable[[Events], list[str]] = lambda events: []


def _matches(document: Document) -> bool:
    return any(isinstance(event.get("choices"), list) for event in document.events)


def _read(document: Document) -> Draft:
    events = document.events
    flavour = next(flavour for flavour in _FLAVOURS if flavour.marks(events))
    choices = [choice for event in events if (choice := _choice(event))]
    text = _THINKING.sub("", _text(choices), count=1)
    return Draft(
        wire=flavour.wire,
        text=text,
        citations=flavour.cited(events, text),
        retrieved=flavour.retrieved(events),
        search_queries=tuple(flavour.queries(events)),
        model=last_text(events, "model"),
        finish_reason=last_text(choices, "finish_reason"),
        request_id=last_text(events, "id"),
        refusal="".join(text_at(said, "refusal") for said in _said(choices)),
        tool_calls=any(nodes_at(said, "tool_calls") for said in _said(choices)),
        fault=_choice_fault(choices),
    )


def _choice(event: Node) -> Node:
    """The first of several alternatives; the others are not what a person would have seen."""
    alternatives = nodes_at(event, "choices")
    return next((choice for choice in alternatives if choice.get("index") in (0, None)), {})


def _said(choices: Iterable[Node]) -> list[Node]:
    """Messages and deltas; Perplexity sends both in one choice."""
    return [node for choice in choices for key in ("message", "delta") if (node := node_at(choice, key))]


def _text(choices: list[Node]) -> str:
    """The joined deltas, or the message where that says more: some streams repeat it cumulatively."""
    deltas = "".join(_content(choice, "delta") for choice in choices)
    message = join_pieces([_content(choice, "message") for choice in choices])
    return max(deltas, message, key=len)


def _content(choice: Node, key: str) -> str:
    content = at(choice, key, "content")
    if isinstance(content, list):
        return "".join(text_at(part, "text") for part in content)
    return text_at(content)


def _choice_fault(choices: list[Node]) -> Fault | None:
    return next((fault for choice in choices if choice.get("error") and (fault := fault_of(choice))), None)


def _annotations(events: Events, text: str) -> tuple[Source, ...]:
    notes = [
        note for choice in map(_choice, events) for said in _said([choice]) for note in nodes_at(said, "annotations")
    ]
    return sources(node_at(note, "url_citation") for note in notes if note.get("type") == "url_citation")


def _listed(events: Events, *path: str | int) -> list[Node]:
    return last_list(nodes_at(event, *path) for event in events)


def _has(events: Events, *path: str | int) -> bool:
    return any(isinstance(at(event, *path), list) for event in events)


def _is_compound(events: Events) -> bool:
    return any("x_groq" in event for event in events) or bool(_tools(events))


def _tools(events: Events) -> list[Node]:
    """Groq's executed tools; a stream announces each and repeats it with results, under the same index."""
    tools: dict[object, Node] = {}
    for said in _said(map(_choice, events)):
        for position, tool in enumerate(nodes_at(said, "executed_tools")):
            tools[str(tool.get("index", position))] = tool
    return list(tools.values())


def _tool_sources(events: Events, text: str) -> tuple[Source, ...]:
    return sources(result for tool in _tools(events) for result in nodes_at(tool, "search_results", "results"))


def _tool_queries(events: Events) -> list[str]:
    return [query for tool in _tools(events) for query in argument(tool.get("arguments"), "query")]


def _plain_citations(events: Events, text: str) -> tuple[Source, ...]:
    """Perplexity's plain URLs, with the titles of the search results where the same URL stands there."""
    urls: list[str] = []
    for event in events:
        urls = strings_at(event, "citations") or urls
    titled = {found.url: found for found in sources(_listed(events, "search_results"))}
    return tuple(titled.get(bare.url, bare) for bare in plain_sources(urls))


def _bot_details(events: Events) -> list[Node]:
    actions = [action for event in events for action in nodes_at(event, "bot_usage", "action_details")]
    return [detail for action in actions for detail in nodes_at(action, "tool_details")]


def _bot_results(events: Events) -> tuple[Source, ...]:
    path = ("output", "data", "data", "results")
    return sources(result for detail in _bot_details(events) for result in nodes_at(detail, *path))


def _bot_queries(events: Events) -> list[str]:
    return [query for detail in _bot_details(events) for query in strings_at(detail, "input", "queries")]


def _is_moonshot(events: Events) -> bool:
    model = (last_text(events, "model") or "").casefold()
    return model.startswith(("kimi", "moonshot"))


_FLAVOURS = (
    _Flavour("groq.chat", _is_compound, _tool_sources, queries=_tool_queries),
    _Flavour(
        "doubao.bots.chat",
        lambda events: _has(events, "references") or any("bot_usage" in event for event in events),
        lambda events, text: sources(_listed(events, "references")),
        _bot_results,
        _bot_queries,
    ),
    _Flavour(
        "perplexity.chat",
        lambda events: _has(events, "citations"),
        _plain_citations,
        lambda events: sources(_listed(events, "search_results")),
    ),
    _Flavour(
        "hunyuan.chat",
        lambda events: _has(events, "search_info", "search_results"),
        lambda events, text: sources(_listed(events, "search_info", "search_results")),
    ),
    _Flavour(
        "ernie.v2.chat",
        lambda events: _has(events, "search_results"),
        lambda events, text: sources(_listed(events, "search_results")),
    ),
    _Flavour(
        "zhipu.chat",
        lambda events: _has(events, "web_search"),
        lambda events, text: sources(_listed(events, "web_search"), url="link"),
    ),
    _Flavour("moonshot.chat", _is_moonshot, lambda events, text: written_sources(text)),
    _Flavour("openai.chat", lambda events: True, _annotations),
)

READER = Reader("openai.chat", _matches, _read)
