"""Any folder of response bodies can be replayed; what cannot be is named (2-desktop §2.4)."""

import json
import os
from pathlib import Path

import pytest

from desktop.recorded import (
    MAX_QUESTION,
    AnswersFolderMissing,
    NoRecordedAnswers,
    RecordedAnswers,
    load_answers,
    samples_folder,
)
from domain.answers import read_answer

BODY = '{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}'
PLATFORMS = {"openai", "qwen", "doubao", "perplexity"}


def put(folder: Path, file: str, body: str | bytes = BODY) -> Path:
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body.encode() if isinstance(body, str) else body)
    return path


def manifest(folder: Path, *entries: object) -> None:
    lines = [entry if isinstance(entry, str) else json.dumps(entry, ensure_ascii=False) for entry in entries]
    put(folder, "MANIFEST.jsonl", "\n".join(lines))


def questions(loaded: RecordedAnswers) -> list[tuple[str, str]]:
    return [(answer.platform, answer.question) for answer in loaded.answers]


def reasons(loaded: RecordedAnswers) -> dict[str, str]:
    return {entry.file: entry.reason for entry in loaded.skipped}


def test_without_a_manifest_the_folder_is_the_platform_and_the_name_the_question(tmp_path: Path) -> None:
    put(tmp_path, "kimi/best-notes.json")
    put(tmp_path, "kimi/deep/other.sse")
    put(tmp_path, "loose.md")
    put(tmp_path, "README.md")
    put(tmp_path, ".hidden/x.json")
    loaded = load_answers(tmp_path)
    assert questions(loaded) == [("kimi", "best-notes"), ("kimi", "other"), ("recorded", "loose")]
    assert [answer.file for answer in loaded.answers] == ["kimi/best-notes.json", "kimi/deep/other.sse", "loose.md"]
    assert loaded.skipped == ()


def test_manifest_names_platform_and_question(tmp_path: Path) -> None:
    put(tmp_path, "exports/a.json")
    manifest(
        tmp_path,
        {"file": "exports/a.json", "platform": "chatgpt", "question": " 哪款\n好用？ ", "language": "zh", "n": 1},
    )
    [answer] = load_answers(tmp_path).answers
    assert (answer.platform, answer.question, answer.language) == ("chatgpt", "哪款 好用？", "zh")


def test_repeated_questions_each_keep_a_question_of_their_own(tmp_path: Path) -> None:
    names = ["p/a.json", "p/b.json", "p/c.json", "q/a.json"]
    for name in names:
        put(tmp_path, name)
    manifest(tmp_path, *({"file": name, "question": "Which?"} for name in names))
    loaded = load_answers(tmp_path)
    assert questions(loaded) == [
        ("p", "Which?"),
        ("p", "Which? (p/b.json)"),
        ("p", "Which? (p/c.json)"),
        ("q", "Which?"),
    ]
    found = [loaded.find(answer.platform, answer.question) for answer in loaded.answers]
    assert found == list(loaded.answers)


def test_long_repeated_questions_stay_bounded_and_unique(tmp_path: Path) -> None:
    names = [f"p/{letter}.json" for letter in "abc"]
    for name in names:
        put(tmp_path, name)
    manifest(tmp_path, *({"file": name, "question": "x" * 5000} for name in names))
    asked = [answer.question for answer in load_answers(tmp_path).answers]
    assert len(set(asked)) == 3
    assert all(0 < len(question) <= MAX_QUESTION for question in asked)


def test_questions_are_storable_and_never_empty(tmp_path: Path) -> None:
    put(tmp_path, "p/a.json")
    put(tmp_path, "p/b.json")
    manifest(tmp_path, {"file": "p/a.json", "question": "a\0b"}, {"file": "p/b.json", "question": "\0 \n"})
    assert questions(load_answers(tmp_path)) == [("p", "a b"), ("p", "b")]


def test_broken_manifest_lines_are_named_and_the_rest_runs(tmp_path: Path) -> None:
    put(tmp_path, "p/a.json")
    manifest(
        tmp_path,
        "{broken",
        {"file": "p/a.json", "question": "Which?"},
        "",
        {"file": 3},
        "[" * 5000,
        {"file": "p/gone.json"},
    )
    loaded = load_answers(tmp_path)
    assert questions(loaded) == [("p", "Which?")]
    assert set(reasons(loaded)) == {"MANIFEST.jsonl:1", "MANIFEST.jsonl:4", "MANIFEST.jsonl:5", "p/gone.json"}


def test_manifest_cannot_point_outside_the_folder(tmp_path: Path) -> None:
    put(tmp_path, "outside.json")
    put(tmp_path, "in/p/a.json")
    manifest(tmp_path / "in", {"file": "../outside.json"}, {"file": "/etc/hostname"})
    loaded = load_answers(tmp_path / "in")
    assert questions(loaded) == [("p", "a")]
    assert set(reasons(loaded)) == {"../outside.json", "/etc/hostname"}


def test_files_that_cannot_be_replayed_are_named_with_a_reason(tmp_path: Path) -> None:
    put(tmp_path, "p/good.json")
    put(tmp_path, "p/empty.json", "")
    put(tmp_path, "p/large.json", b"x" * 1_000_001)
    put(tmp_path, "p/gbk.md", "云笔记".encode("gbk"))
    put(tmp_path, "p/picture.png", b"\x89PNG")
    (tmp_path / "p" / "folder.json").mkdir()
    (tmp_path / "p" / "dangling.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "p" / "linked").symlink_to(tmp_path / "p")
    os.mkfifo(tmp_path / "p" / "pipe.json")
    loaded = load_answers(tmp_path)
    assert questions(loaded) == [("p", "good")]
    assert reasons(loaded) == {
        "p/dangling.json": "a link to nothing",
        "p/empty.json": "empty",
        "p/folder.json": "a folder named like a file",
        "p/gbk.md": "not UTF-8 at byte 0",
        "p/large.json": "over 1000000 bytes",
        "p/linked": "a linked folder",
        "p/picture.png": "not one of .htm, .html, .json, .jsonl, .md, .sse, .txt",
        "p/pipe.json": "not a regular file",
    }


def test_files_without_permission_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "p/good.json")
    closed = put(tmp_path, "p/closed.json")
    read = Path.read_bytes

    def denied(path: Path) -> bytes:
        if path == closed:
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", denied)  # root may read everything, so modes would not do
    assert reasons(load_answers(tmp_path)) == {"p/closed.json": "Permission denied"}


def test_a_byte_order_mark_is_fine(tmp_path: Path) -> None:
    put(tmp_path, "p/a.json", b"\xef\xbb\xbf" + BODY.encode())
    assert questions(load_answers(tmp_path)) == [("p", "a")]


def test_missing_folder_and_no_answers_are_typed(tmp_path: Path) -> None:
    with pytest.raises(AnswersFolderMissing) as missing:
        load_answers(tmp_path / "none")
    assert missing.value.code == "answers_folder_missing"
    put(tmp_path, "p/empty.json", "")
    with pytest.raises(NoRecordedAnswers) as nothing:
        load_answers(tmp_path)
    assert nothing.value.code == "no_recorded_answers"
    assert nothing.value.context["skipped"] == ["p/empty.json: empty"]


def test_an_unknown_question_gets_the_same_answer_every_time_in_its_language() -> None:
    loaded = load_answers(samples_folder())
    for question, language in (("完全没见过的问题？", "zh"), ("A question nobody recorded?", "en")):
        chosen = {loaded.answer_for("qwen", question) for _ in range(3)}
        [answer] = chosen
        assert answer is not None
        assert (answer.platform, answer.language) == ("qwen", language)


def test_seeds_spread_over_the_answers_and_exact_matches_ignore_them() -> None:
    loaded = load_answers(samples_folder())
    spread = {loaded.answer_for("openai", "Never recorded?", seed) for seed in range(40)}
    assert len(spread) > 2
    first = loaded.answers[0]
    assert {loaded.answer_for(first.platform, f"  {first.question} ", seed) for seed in range(5)} == {first}
    assert loaded.answer_for("nobody", "Which?") is None


def test_shipped_samples_all_read_as_answers_with_citations() -> None:
    loaded = load_answers(samples_folder())
    assert loaded.skipped == ()
    assert {answer.platform for answer in loaded.answers} == PLATFORMS
    for recorded in loaded.answers:
        answer = read_answer(recorded.path.read_bytes())
        assert answer.kind.is_answer, recorded.file
        assert answer.text
        assert answer.citations


def test_shipped_questions_have_an_answer_on_every_platform() -> None:
    loaded = load_answers(samples_folder())
    asked = json.loads((samples_folder() / "QUESTIONS.json").read_text("utf-8"))
    assert [entry["language"] for entry in asked].count("zh") == len(asked) / 2 == 12
    for entry in asked:
        for platform in PLATFORMS:
            answer = loaded.answer_for(platform, entry["text"])
            assert answer is not None
            assert answer.language == entry["language"]
    assert {answer.question for answer in loaded.answers} <= {entry["text"] for entry in asked}
