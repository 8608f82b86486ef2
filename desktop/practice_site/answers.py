"""What the practice site answers: the question again, three products and two sources, as a chat-completions stream."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

MODEL: Final = "practice-1"
SOURCES: Final = (
    ("Nimbus Notes compared", "https://www.example.com/nimbus-notes-compared"),
    ("A year with note apps", "https://www.example.org/a-year-with-note-apps"),
)
TEXT: Final = """You asked: {question}

Three products are named most often:

1. **Nimbus** is the one that teams choose first.
2. **Moye** is simpler, and free for one person.
3. **Paperline** suits those who write by hand.

Sources: [{a}]({a_url}), [{b}]({b_url})
"""


def answer_to(question: str) -> str:
    """The whole answer, Markdown."""
    (a, a_url), (b, b_url) = SOURCES
    return TEXT.format(question=question, a=a, a_url=a_url, b=b, b_url=b_url)


def chunks(text: str) -> Iterator[bytes]:
    """The answer word by word, as events of an OpenAI-compatible stream."""
    for number, word in enumerate(text.split(" ")):
        yield event({"content": word if number == 0 else f" {word}"}, None)
    yield event({}, "stop")
    yield b"data: [DONE]\n\n"


def event(delta: dict[str, Any], finish: str | None) -> bytes:
    """One chunk of the stream."""
    body = {
        "id": "chatcmpl-practice",
        "object": "chat.completion.chunk",
        "model": MODEL,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    return b"data: " + msgspec.json.encode(body) + b"\n\n"
