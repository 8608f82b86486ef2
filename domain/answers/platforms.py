"""Whose answer a body is: a guess from its wire, its model and the shape of its error (3-results §3.3).

The platforms' names are those of the project's lists: `openai`, `google`, `anthropic`, `perplexity`, `xai`, `qwen`,
`openrouter`, `deepseek`, `doubao`, `ernie`, `groq`, `zhipu`, `bedrock`, `cohere`, `hunyuan`, `kimi`, and `exports` for
pages and records that people exported.
"""

import re
from typing import Final

from domain.answers.fields import Node, node_at, text_at
from domain.answers.model import Answer

_BY_WIRE: Final = {
    "anthropic": "anthropic",
    "bedrock": "bedrock",
    "chatgpt": "openai",
    "cohere": "cohere",
    "dashscope": "qwen",
    "deepseek": "deepseek",
    "doubao": "doubao",
    "ernie": "ernie",
    "google": "google",
    "groq": "groq",
    "html": "exports",
    "hunyuan": "hunyuan",
    "kimi": "kimi",
    "moonshot": "kimi",
    "openrouter": "openrouter",
    "perplexity": "perplexity",
    "qwen": "qwen",
    "perplexity.export-md": "exports",
    "plain-answer-record": "exports",
    "xai": "xai",
    "zhipu": "zhipu",
}
_BY_MODEL: Final = (
    (re.compile(r"gpt|o[134](?:-|$)|chatgpt|computer-use|codex"), "openai"),
    (re.compile(r"grok"), "xai"),
    (re.compile(r"deepseek"), "deepseek"),
    (re.compile(r"qwen|qwq|qvq|tongyi"), "qwen"),
    (re.compile(r"doubao|ep-|bot-|seed-"), "doubao"),
    (re.compile(r"ernie"), "ernie"),
    (re.compile(r"glm|chatglm|cogview"), "zhipu"),
    (re.compile(r"kimi|moonshot"), "kimi"),
    (re.compile(r"hunyuan"), "hunyuan"),
    (re.compile(r"sonar|pplx"), "perplexity"),
    (re.compile(r"gemini|gemma"), "google"),
    (re.compile(r"claude"), "anthropic"),
    (re.compile(r"command|c4ai"), "cohere"),
    (re.compile(r"compound"), "groq"),
)
_GOOGLE_STATUS: Final = re.compile(r"[A-Z]+(?:_[A-Z]+)*\Z")
_CAMEL_CASE: Final = re.compile(r"(?:[A-Z][a-z]+){2,}(?:\.[A-Za-z]+)*\Z")
_OPENAI_CODES: Final = ("insufficient_quota", "server_error", "billing_hard_limit_reached")
_ZHIPU_CODE: Final = re.compile(r"1[0-9]{3}\Z")


def platform_of(answer: Answer) -> str | None:
    """The platform that most likely gave the answer; None where its content cannot tell."""
    if answer.platform is not None:
        return answer.platform
    wire = answer.wire.removesuffix(".sse").removesuffix(".stream")
    if wire.startswith("openai"):
        return _of_shared_wire(answer, wire)
    return _BY_WIRE.get(wire) or _BY_WIRE.get(wire.split(".")[0])


def _of_shared_wire(answer: Answer, wire: str) -> str | None:
    """Many platforms speak OpenAI's formats: the model tells, and OpenRouter's ids and its `maker/model` names."""
    model = (answer.model or "").casefold()
    if wire == "openai.chat" and ("/" in model or (answer.request_id or "").startswith("gen-")):
        return "openrouter"
    named = next((platform for pattern, platform in _BY_MODEL if pattern.match(model)), None)
    return named or (None if wire == "openai.chat" else "openai")


def platform_of_fault(event: Node) -> str | None:
    """The platform that words its errors like this one."""
    error = event.get("error")
    if isinstance(error, dict):
        return _of_error_object(event, error)
    if isinstance(error, str):
        return "xai" if isinstance(event.get("code"), str) else None
    return _of_bare_error(event)


def _of_bare_error(event: Node) -> str | None:
    if node_at(event, "Response", "Error"):
        return "hunyuan"
    if "error_code" in event and "error_msg" in event:
        return "ernie"
    if "__type" in event or "__type" in node_at(event, "Output"):
        return "bedrock"
    if text_at(event, "code") and "request_id" in event:
        return "qwen"
    return None


def _of_error_object(event: Node, error: Node) -> str | None:
    kind, code = text_at(error, "type"), error.get("code")
    if event.get("type") == "error" and kind:
        return "anthropic"
    if "metadata" in error or "user_id" in event:
        return "openrouter"
    if isinstance(code, int):
        return _of_numbered_error(error, kind)
    return _of_named_error(error, kind, text_at(error, "code"))


def _of_numbered_error(error: Node, kind: str) -> str | None:
    if _GOOGLE_STATUS.match(text_at(error, "status")):
        return "google"
    return "perplexity" if kind else None


def _of_named_error(error: Node, kind: str, code: str) -> str | None:
    if _ZHIPU_CODE.match(code):
        return "zhipu"
    if _CAMEL_CASE.match(code):
        return "doubao"
    if kind and kind == code and kind not in _OPENAI_CODES:
        return "deepseek"
    return "openai" if kind and "param" in error else None
