"""What the demo asks: the repo's samples, or a folder of recorded answers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from desktop.recorded import RecordedAnswers, load_answers, samples_folder


@dataclass(frozen=True, slots=True)
class Question:
    """One question; `platforms` None means every platform of the plan."""

    text: str
    platforms: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Material:
    """The brand, its competitors and questions, and where the desktops find the answers."""

    answers: RecordedAnswers
    brand: dict[str, Any]
    competitors: list[dict[str, Any]]
    questions: tuple[Question, ...]
    platforms: tuple[str, ...]


def samples() -> Material:
    """24 questions, half of them Chinese, each asked on four platforms."""
    folder = samples_folder()
    answers = load_answers(folder)
    known = orjson.loads((folder / "brand.json").read_bytes())
    asked = orjson.loads((folder / "QUESTIONS.json").read_bytes())
    return Material(
        answers=answers,
        brand=known["brand"],
        competitors=known["competitors"],
        questions=tuple(Question(item["text"], None) for item in asked),
        platforms=tuple(sorted({answer.platform for answer in answers.answers})),
    )


def recorded(folder: Path, brand: str, competitors: list[str]) -> Material:
    """Every file of the folder becomes a question on its platform."""
    answers = load_answers(folder)
    return Material(
        answers=answers,
        brand={"name": brand, "aliases": [], "domains": []},
        competitors=[{"name": name, "aliases": [], "domains": []} for name in competitors],
        questions=_by_text(answers),
        platforms=tuple(sorted({answer.platform for answer in answers.answers})),
    )


def _by_text(answers: RecordedAnswers) -> tuple[Question, ...]:
    """A brand asks a text once; the same text on two platforms is one question with two platforms."""
    platforms: dict[str, list[str]] = {}
    for answer in answers.answers:
        platforms.setdefault(answer.question, []).append(answer.platform)
    return tuple(Question(text, tuple(sorted(names))) for text, names in platforms.items())
