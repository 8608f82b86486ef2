"""The registry of wire formats, most specific first: the first reader that matches reads."""

from domain.answers.document import Document
from domain.answers.draft import Draft
from domain.answers.faults import first_fault
from domain.answers.platforms import platform_of_fault
from domain.answers.readers import (
    anthropic,
    bedrock,
    captures,
    chat,
    chat_pages,
    chatgpt_web,
    cohere,
    completions,
    dashscope,
    deepseek_web,
    dify,
    doubao_web,
    google,
    google_interactions,
    grok_web,
    hunyuan,
    messages,
    mistral,
    openai_responses,
    pages,
    perplexity_web,
    qwen_web,
    search,
    search_answers,
    serp,
    spark,
    xai,
)
from domain.answers.readers.base import Reader


def _is_fault(document: Document) -> bool:
    return first_fault(document.events) is not None


def _read_fault(document: Document) -> Draft:
    named = (platform_of_fault(event) for event in document.events)
    return Draft("error", fault=first_fault(document.events), platform=next(filter(None, named), None))


WIRES: tuple[Reader, ...] = (
    captures.DOUBAO,
    captures.PERPLEXITY,
    captures.CHATGPT,
    perplexity_web.READER,
    chatgpt_web.READER,
    deepseek_web.READER,
    serp.DATAFORSEO,
    serp.BLOCKS,
    serp.BRIEF,
    dashscope.RESEARCH,
    bedrock.KNOWLEDGE,
    bedrock.CONVERSE,
    bedrock.CONVERSE_STREAM,
    dashscope.GENERATION,
    openai_responses.READER,
    google_interactions.INTERACTIONS,
    google.CONTENT,
    anthropic.READER,
    cohere.V2,
    cohere.V1,
    mistral.READER,
    hunyuan.READER,
    xai.READER,
    grok_web.READER,
    qwen_web.READER,
    chat.READER,
    search.ERNIE,
    search.WEB_SEARCH,
    search_answers.VERTEX,
    search_answers.LISTED,
    spark.READER,
    chat_pages.KIMI,
    chat_pages.YUANBAO,
    doubao_web.QUOTED,
    doubao_web.NAMED,
    chat_pages.COZE,
    chat_pages.METASO,
    chat_pages.COPILOT,
    messages.THREAD,
    messages.UI_STREAM,
    messages.OLLAMA,
    messages.LETTERED,
    messages.CONVERSATION,
    dify.READER,
    completions.READER,
)
"""The platforms' formats."""

REMAINDERS: tuple[Reader, ...] = (
    Reader("error", _is_fault, _read_fault),
    search_answers.PAGES,
    captures.RECORD,
    pages.HTML,
    pages.TEXT,
)

"""What is read when no platform's format is found, in the body or in one it wraps."""


def reader_of(document: Document, readers: tuple[Reader, ...]) -> Reader | None:
    """The first reader that takes the document."""
    return next((reader for reader in readers if reader.takes(document)), None)


__all__ = ["REMAINDERS", "WIRES", "Reader", "reader_of"]
