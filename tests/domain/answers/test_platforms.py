"""A body tells its platform by wire, model and error shape, and how it ended, or says nothing of it."""

import json
from typing import Any

import pytest

from domain.answers import Answer, AnswerKind, finish_of, platform_of, read_answer


def chat(model: str, **beside: Any) -> dict[str, Any]:
    return {"model": model, "choices": [{"message": {"content": "A"}, "finish_reason": "stop"}], **beside}


def responses(model: str) -> dict[str, Any]:
    output = [{"type": "message", "content": [{"type": "output_text", "text": "A"}]}]
    return {"object": "response", "status": "completed", "model": model, "output": output}


BODIES = [
    (chat("gpt-4o"), "openai"),
    (chat("o3-mini"), "openai"),
    (chat("deepseek-chat"), "deepseek"),
    (chat("qwen3-max"), "qwen"),
    (chat("glm-4.7"), "zhipu"),
    (chat("kimi-k2.5"), "kimi"),
    (chat("moonshot-v1-8k"), "kimi"),
    (chat("hunyuan-turbo"), "hunyuan"),
    (chat("ernie-4.0-8k"), "ernie"),
    (chat("doubao-1-5-pro"), "doubao"),
    (chat("grok-4"), "xai"),
    (chat("grok-4", citations=["https://a.example/"]), "xai"),
    (chat("sonar", citations=[]), "perplexity"),
    (chat("llama-3.3-70b-versatile", x_groq={"id": "x"}), "groq"),
    (chat("moonshotai/kimi-k2"), "openrouter"),
    (chat("deepseek-chat", id="gen-17"), "openrouter"),
    (chat("some-local-model"), None),
    (chat("gpt-4o", references=[{"url": "https://a.example/"}]), "doubao"),
    (responses("gpt-5"), "openai"),
    (responses("grok-4"), "xai"),
    (responses("deepseek-v4"), "deepseek"),
    (responses("unheard-of"), "openai"),
    ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, "anthropic"),
    ({"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}}, "google"),
    ({"error": {"code": 400, "message": "m", "type": "bad"}}, "perplexity"),
    ({"error": {"code": 402, "message": "m", "metadata": {}}}, "openrouter"),
    ({"error": {"code": "invalid_api_key", "message": "m", "type": "t", "param": None}}, "openai"),
    ({"error": {"code": "t", "message": "m", "type": "t", "param": None}}, "deepseek"),
    ({"error": {"code": "1302", "message": "m"}}, "zhipu"),
    ({"error": {"code": "AuthenticationError", "message": "m", "type": "Unauthorized", "param": ""}}, "doubao"),
    ({"code": "Throttling", "message": "m", "request_id": "r"}, "qwen"),
    ({"error_code": 18, "error_msg": "m"}, "ernie"),
    ({"Response": {"Error": {"Code": "LimitExceeded", "Message": "m"}}}, "hunyuan"),
    ({"__type": "ThrottlingException", "message": "m"}, "bedrock"),
    ({"code": "Some code", "error": "m"}, "xai"),
    ({"error": {"message": "m"}}, None),
]


@pytest.mark.parametrize(("body", "platform"), BODIES, ids=lambda value: str(value)[:60])
def test_platform_is_told_by_content(body: dict[str, Any], platform: str | None) -> None:
    assert platform_of(read_answer(json.dumps(body).encode())) == platform


@pytest.mark.parametrize(
    ("answer", "finish"),
    [
        (Answer("openai.chat", AnswerKind.ANSWER, finish_reason="stop"), "stop"),
        (Answer("openai.chat", AnswerKind.ERROR, finish_reason="stop"), "stop"),
        (Answer("openai.chat", AnswerKind.ERROR), "error"),
        (Answer("unreadable", AnswerKind.ERROR), "error"),
        (Answer("error", AnswerKind.REFUSAL), "error"),
        (Answer("error", AnswerKind.RATE_LIMITED), "error"),
        (Answer("html.block-page", AnswerKind.BLOCKED), "blocked"),
        (Answer("google.generateContent", AnswerKind.REFUSAL), "blocked"),
        (Answer("doubao.app.ui-capture", AnswerKind.ANSWER), None),
        (Answer("hunyuan.chat", AnswerKind.UNFINISHED), None),
        (Answer("empty", AnswerKind.EMPTY), None),
    ],
)
def test_finish_is_the_platforms_word_or_ours(answer: Answer, finish: str | None) -> None:
    assert finish_of(answer) == finish
