"""What each platform adds to the chat completions shape: where its sources and search queries stand.

OpenAI, OpenRouter, DeepSeek and Azure annotate the message; Perplexity, Doubao, ERNIE, Hunyuan, Qwen, Zhipu, xAI and
Groq add lists of their own; Kimi only writes links into the text.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from domain.answers.fields import (
    Node,
    any_sources,
    argument,
    at,
    node_at,
    nodes_at,
    optional_text_at,
    plain_sources,
    source,
    sources,
    strings_at,
    text_at,
    unquoted,
)
from domain.answers.links import written_sources
from domain.answers.model import Source
from domain.answers.readers.base import last_list, last_text

Events = tuple[Node, ...]
Said = list[Node]


@dataclass(frozen=True, slots=True)
class Flavour:
    """One platform's additions. Its functions get the events and what was said in them; `cited` also the text."""

    wire: str
    marks: Callable[[Events, Said], bool]
    cited: Callable[[Events, Said, str], tuple[Source, ...]]
    retrieved: Callable[[Events, Said], tuple[Source, ...]] = lambda events, said: ()
    queries: Callable[[Events, Said], list[str]] = lambda events, said: []


def flavour_of(events: Events, said: Said) -> Flavour:
    """The first flavour whose marks the events bear; plain OpenAI bears any."""
    return next(flavour for flavour in _FLAVOURS if flavour.marks(events, said))


def _listed(events: Events, *path: str | int) -> list[Node]:
    return last_list(nodes_at(event, *path) for event in events)


def _has(events: Events, *path: str | int) -> bool:
    return any(isinstance(at(event, *path), list) for event in events)


def _model_is(events: Events, *prefixes: str) -> bool:
    model = (last_text(events, "model") or "").casefold()
    return model.startswith(prefixes) and "/" not in model  # "maker/model" is a gateway's name for it


def _annotations(events: Events, said: Said, text: str) -> tuple[Source, ...]:
    """Annotated URLs; else what Azure's own search puts into the message's context."""
    notes = [note for message in said for note in nodes_at(message, "annotations")]
    noted = sources(
        node_at(note, "url_citation") or note for note in notes if note.get("type") in ("url_citation", "url")
    )
    return noted or _context(said)


def _context(said: Said) -> tuple[Source, ...]:
    """Azure's "on your data": documents, of which only some have a web address."""
    held = last_list(nodes_at(unquoted(message.get("context")), "citations") for message in said)
    return tuple(source(entry, title="title" if entry.get("title") else "filepath") for entry in held)


def _is_annotated(events: Events, said: Said) -> bool:
    return any(nodes_at(message, "annotations") for message in said)


def _is_compound(events: Events, said: Said) -> bool:
    return any("x_groq" in event for event in events) or bool(_tools(said))


def _tools(said: Said) -> list[Node]:
    """Groq's executed tools; a stream announces each and repeats it with results, under the same index."""
    tools: dict[str, Node] = {}
    for message in said:
        for position, tool in enumerate(nodes_at(message, "executed_tools")):
            tools[str(tool.get("index", position))] = tool
    return list(tools.values())


def _tool_sources(events: Events, said: Said, text: str) -> tuple[Source, ...]:
    return sources(result for tool in _tools(said) for result in nodes_at(tool, "search_results", "results"))


def _tool_queries(events: Events, said: Said) -> list[str]:
    return [query for tool in _tools(said) for query in argument(tool.get("arguments"), "query", "queries")]


def _urls(events: Events) -> list[str]:
    urls: list[str] = []
    for event in events:
        urls = strings_at(event, "citations") or urls
    return urls


def _titled_urls(events: Events, said: Said, text: str) -> tuple[Source, ...]:
    """Plain URLs, with the titles of the search results where the same URL stands there; else those results."""
    found = sources(_listed(events, "search_results"))
    titled = {entry.url: entry for entry in found}
    plain = tuple(titled.get(bare.url, bare) for bare in plain_sources(_urls(events)))
    return plain or sources(_listed(events, "citations")) or found


def _search_results(events: Events, said: Said) -> tuple[Source, ...]:
    return sources(_listed(events, "search_results"))


def _is_perplexity(events: Events, said: Said) -> bool:
    return _has(events, "citations") or (_has(events, "search_results") and _model_is(events, "sonar", "r1-1776"))


def _is_grok(events: Events, said: Said) -> bool:
    return _model_is(events, "grok") and _has(events, "citations")


def _bot_details(events: Events) -> list[Node]:
    actions = [action for event in events for action in nodes_at(event, "bot_usage", "action_details")]
    return [detail for action in actions for detail in nodes_at(action, "tool_details")]


def _bot_results(events: Events, said: Said) -> tuple[Source, ...]:
    path = ("output", "data", "data", "results")
    return sources(result for detail in _bot_details(events) for result in nodes_at(detail, *path))


def _bot_queries(events: Events, said: Said) -> list[str]:
    """The queries of each tool call, which carries its input as an object or as a JSON string."""
    return [query for detail in _bot_details(events) for query in argument(detail.get("input"), "queries", "query")]


def _bot_references(events: Events, said: Said, text: str) -> tuple[Source, ...]:
    return sources(_listed(events, "references") or last_list(nodes_at(message, "references") for message in said))


def _is_bot(events: Events, said: Said) -> bool:
    return _has(events, "references") or any("bot_usage" in event for event in events)


def _is_baidu_search(events: Events, said: Said) -> bool:
    """Baidu's AI search answers like a Doubao bot, under a request id and with pages numbered by `id`."""
    pages = _listed(events, "references")
    return bool(pages) and any("request_id" in event or "is_safe" in event for event in events)


def _zhipu_calls(said: Said) -> list[Node]:
    return [call for message in said for call in nodes_at(message, "tool_calls") if call.get("type") == "web_search"]


def _is_zhipu(events: Events, said: Said) -> bool:
    older = any("search_result" in call or "web_search" in call for call in _zhipu_calls(said))
    return (
        older
        or _has(events, "web_search")
        or any(
            isinstance(call.get("search_result"), list) for message in said for call in nodes_at(message, "tool_calls")
        )
    )


def _zhipu_pages(events: Events, said: Said, text: str) -> tuple[Source, ...]:
    """The list beside the choices; else the results of the model's own search calls."""
    calls = [call for message in said for call in nodes_at(message, "tool_calls")]
    inner = [
        page for call in calls for page in nodes_at(call, "search_result") or nodes_at(call, "web_search", "outputs")
    ]
    return sources(_listed(events, "web_search") or inner, url="link")


def _zhipu_queries(events: Events, said: Said) -> list[str]:
    intents = [entry for event in events for entry in nodes_at(event, "search_intent")]
    calls = [call for message in said for call in nodes_at(message, "tool_calls")]
    intents += [entry for call in calls for entry in nodes_at(call, "search_intent")]
    asked = [query for call in _zhipu_calls(said) for query in argument(at(call, "web_search", "input"), "query")]
    return [query for entry in intents if (query := optional_text_at(entry, "query"))] + asked


def _info_results(events: Events, said: Said, text: str) -> tuple[Source, ...]:
    return sources(_listed(events, "search_info", "search_results"))


def _has_info(events: Events, said: Said) -> bool:
    return _has(events, "search_info", "search_results")


def _info_queries(events: Events, said: Said) -> list[str]:
    return [query for event in events for query in strings_at(event, "search_info", "search_queries")]


def _plugin_pages(events: Events, said: Said, text: str) -> tuple[Source, ...]:
    """Spark's search plugin: its pages stand in a JSON string."""
    pages = [unquoted(plugin.get("content")) for event in events for plugin in nodes_at(event, "plugins", "text")]
    return tuple(found for listed in pages for found in any_sources(listed))


def _references_in_parts(said: Said) -> list[Node]:
    """Mistral: pieces of the content that name a page."""
    parts = [part for message in said for part in nodes_at(message, "content")]
    return [part for part in parts if text_at(part, "type") in ("tool_reference", "reference") and text_at(part, "url")]


_FLAVOURS: Final = (
    Flavour("groq.chat", _is_compound, _tool_sources, queries=_tool_queries),
    Flavour(
        "ernie.search",
        _is_baidu_search,
        lambda events, said, text: sources(_listed(events, "references")),
    ),
    Flavour("doubao.bots.chat", _is_bot, _bot_references, _bot_results, _bot_queries),
    Flavour("zhipu.chat", _is_zhipu, _zhipu_pages, queries=_zhipu_queries),
    Flavour("openai.chat", _is_annotated, _annotations),
    Flavour("xai.chat", _is_grok, _titled_urls),
    Flavour("perplexity.chat", _is_perplexity, _titled_urls, _search_results),
    Flavour(
        "qwen.chat",
        lambda events, said: (
            _has_info(events, said) and _model_is(events, "qwen", "qwq", "qvq", "deepseek", "glm", "kimi")
        ),
        _info_results,
        queries=_info_queries,
    ),
    Flavour("hunyuan.chat", _has_info, _info_results, queries=_info_queries),
    Flavour(
        "ernie.v2.chat",
        lambda events, said: _has(events, "search_results"),
        lambda events, said, text: sources(_listed(events, "search_results")),
    ),
    Flavour("spark.chat", lambda events, said: _has(events, "plugins", "text"), _plugin_pages),
    Flavour(
        "mistral.chat",
        lambda events, said: bool(_references_in_parts(said)),
        lambda events, said, text: sources(_references_in_parts(said)),
    ),
    Flavour(
        "moonshot.chat",
        lambda events, said: _model_is(events, "kimi", "moonshot"),
        lambda events, said, text: written_sources(text),
    ),
    Flavour("openai.chat", lambda events, said: True, _annotations),
)
