"""`giveway parse`: one object a file, whatever the file holds (issue 4; 3-results §3.3)."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner, Result

from cli import app
from commands.parse import PLATFORMS
from tests.support.results import chat_answer

REPOSITORY = Path(__file__).parents[2]
SAMPLES = REPOSITORY / "tests/domain/answers/samples"
RECORDED = Path(os.environ.get("GIVEWAY_ANSWERS") or REPOSITORY.parent / "shared/data/answers")
MANIFEST = RECORDED / "MANIFEST.jsonl"

KEYS = [
    *("file", "platform", "wire", "kind", "text_chars", "finish_reason", "search_queries", "citations", "retrieved"),
    *("mentions", "absence", "share_of_voice", "confidence", "error"),
]
NAMES = ("--brand", "Acme", "--alias", "阿克米", "--competitor", "Globex", "--competitor-alias", "Globex=环球")
TEXT = "1. 环球 is large.\n2. Acme, or 阿克米, is better. See https://acme.example/tour"


def run(*arguments: object, **given: Any) -> Result:
    return CliRunner().invoke(app, ["parse", *map(str, arguments)], **given)


def parsed(*arguments: object, code: int = 0, **given: Any) -> list[dict[str, Any]]:
    """The array, checked for its form."""
    done = run(*arguments, "--json", **given)
    assert done.exit_code == code, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)
    for shown in found:
        assert list(shown) == KEYS
    return found


@pytest.fixture
def answer(tmp_path: Path) -> Path:
    urls = ["https://www.acme.example/a", "https://globex.example/b?utm_source=x", "https://acme.example/a", "doc://7"]
    file = tmp_path / "answer.json"
    file.write_text(chat_answer(TEXT, urls=urls, model="gpt-4o"))
    return file


def test_names_are_counted_in_code_points_with_place_and_share(answer: Path) -> None:
    (shown,) = parsed(answer, *NAMES)
    assert shown["mentions"] == [
        {"name": "Globex", "role": "competitor", "count": 1, "first_offset": 3, "position": 1},
        {"name": "Acme", "role": "brand", "count": 2, "first_offset": TEXT.index("Acme"), "position": 2},
    ]
    assert (shown["share_of_voice"], shown["absence"], shown["confidence"], shown["error"]) == (2 / 3, False, 1.0, None)
    assert (shown["platform"], shown["wire"], shown["kind"]) == ("openai", "openai.chat", "answer")
    assert (shown["text_chars"], shown["finish_reason"]) == (len(TEXT), "stop")


def test_citations_keep_order_and_repeats_and_know_whose_they_are(answer: Path) -> None:
    (shown,) = parsed(answer, *NAMES, "--domain", "acme.example", "--competitor-domain", "globex.example")
    assert shown["citations"] == [
        {
            "ordinal": 1,
            "url": "https://www.acme.example/a",
            "normalized_url": "https://acme.example/a",
            "domain": "acme.example",
            "owner": "own",
        },
        {
            "ordinal": 2,
            "url": "https://globex.example/b?utm_source=x",
            "normalized_url": "https://globex.example/b",
            "domain": "globex.example",
            "owner": "competitor",
        },
        {
            "ordinal": 3,
            "url": "https://acme.example/a",
            "normalized_url": "https://acme.example/a",
            "domain": "acme.example",
            "owner": "own",
        },
        {"ordinal": 4, "url": "doc://7", "normalized_url": None, "domain": None, "owner": "other"},
    ]


def test_the_questions_echo_and_names_of_which_nothing_is_known_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(chat_answer("Which is best, Acme or Globex?\n\nI have no information about Acme. Globex is fine."))
    (shown,) = parsed(file, *NAMES, "--question", "Which is best, Acme or Globex?")
    assert [each["name"] for each in shown["mentions"]] == ["Globex"]
    assert (shown["absence"], shown["share_of_voice"]) == (True, 0.0)


def test_a_body_that_is_no_answer_says_nothing_of_names(tmp_path: Path) -> None:
    file = tmp_path / "429.json"
    file.write_text('{"error": {"message": "Acme: slow down", "type": "requests", "code": "rate_limit_exceeded"}}')
    (shown,) = parsed(file, *NAMES)
    assert (shown["kind"], shown["finish_reason"], shown["mentions"]) == ("rate_limited", "error", [])
    assert (shown["absence"], shown["share_of_voice"], shown["confidence"]) == (False, None, 0.0)
    assert "slow down" in shown["error"]


def test_without_a_brand_everything_but_names_is_read(answer: Path) -> None:
    (shown,) = parsed(answer)
    assert (shown["mentions"], shown["share_of_voice"], len(shown["citations"])) == ([], None, 4)
    (rivals,) = parsed(answer, "--competitor", "Globex", "--competitor-alias", "Globex=环球")
    assert ([each["name"] for each in rivals["mentions"]], rivals["share_of_voice"]) == (["Globex"], None)


def test_a_given_platform_is_shown_instead_of_the_recognised_one(answer: Path) -> None:
    for name in ("exports", "kimi"):
        assert parsed(answer, "--platform", name)[0]["platform"] == name


def test_files_that_cannot_be_read_are_reported_and_skipped(answer: Path, tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(bytes(range(128, 256)) * 9)
    (tmp_path / "huge").write_bytes(b" " * (4 * 1024 * 1024 + 1))
    files = [tmp_path / "missing", tmp_path, answer, tmp_path / "bytes", tmp_path / "huge"]
    done = run(*files, "--json", *NAMES)
    shown = json.loads(done.stdout)
    assert [each["file"] for each in shown] == [str(file) for file in files]
    assert [each["kind"] for each in shown] == ["error", "error", "answer", "error", "error"]
    assert [each["error"] is None for each in shown] == [False, False, True, False, False]
    assert [f"skipped {file}" in done.stderr for file in files] == [True, True, False, True, True]
    assert done.exit_code == 0
    assert run(files[0], files[1], files[3], "--json").exit_code == 1


def variants(text: str) -> Iterable[tuple[str, bytes]]:
    """One answer in the encodings that JSON allows."""
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        yield encoding, text.encode(encoding)
    yield "escaped", json.dumps(json.loads(text), ensure_ascii=True).encode()


def test_the_encoding_makes_no_difference(tmp_path: Path) -> None:
    files = []
    for name, body in variants(chat_answer("阿克米 😀 Acme")):
        files.append(tmp_path / f"{name} 答案 [x].json")
        files[-1].write_bytes(body)
    for shown in parsed(*files, *NAMES):
        assert shown["mentions"][0]["count"] == 2, shown
        assert shown["text_chars"] == 10


def test_output_is_utf_8_whatever_the_body_or_the_files_name_holds(tmp_path: Path) -> None:
    file = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.json")
    choice = {"message": {"content": "Acme \ud83d"}, "finish_reason": "stop\udc00"}
    Path(file).write_text(json.dumps({"choices": [choice], "model": "\ud800", "search_queries": ["\ud800"]}))
    (shown,) = parsed(file, *NAMES)
    assert shown["file"].endswith("/\ufffd.json")
    assert shown["mentions"][0]["count"] == 1


def test_a_large_answer_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "large.json"
    file.write_text(chat_answer("Acme 阿克米 und so weiter. " * 14_000))
    (shown,) = parsed(file, *NAMES)
    assert shown["mentions"][0]["count"] == 28_000


def test_standard_input_is_a_file_too(answer: Path) -> None:
    (shown,) = parsed("-", *NAMES, input=answer.read_bytes())
    assert (shown["file"], len(shown["mentions"])) == ("-", 2)


@pytest.mark.parametrize(
    "arguments",
    [
        ["a", "--platform", "aol"],
        ["a", "--alias", "Acme"],
        ["a", "--brand", " "],
        ["a", "--brand", "A", "--competitor-alias", "B=C"],
        ["a", "--competitor", "B", "--competitor-alias", "B"],
        [],
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_people_get_a_table_and_the_details_of_a_single_file(answer: Path, tmp_path: Path) -> None:
    (tmp_path / "odd [red]").write_text("{")
    table = run(answer, tmp_path / "odd [red]", *NAMES).stdout
    assert "answer.json" in table
    assert "odd [red]" in table
    assert "67%" in table
    details = run(answer, *NAMES).stdout
    assert "https://globex.example/b" in details
    assert "doc://7 (no web page)" in details


def test_every_sample_has_its_object_and_its_platform_is_a_known_one() -> None:
    files = sorted(file for file in SAMPLES.iterdir() if file.name != "EXPECTED.jsonl")
    shown = parsed(*files, *NAMES)
    assert [each["file"] for each in shown] == [str(file) for file in files]
    assert {each["platform"] for each in shown} <= {*PLATFORMS, None}


@pytest.mark.skipif(not MANIFEST.is_file(), reason="no recorded answers; set GIVEWAY_ANSWERS")
def test_recorded_answers_are_shown_exactly_as_their_manifest_says() -> None:
    """Through the program itself: standard output holds the array alone."""
    entries = [json.loads(line) for line in MANIFEST.read_text("utf-8").splitlines()]
    files = [str(RECORDED / entry["file"]) for entry in entries]
    command = [sys.executable, "-m", "cli", "parse", *files, "--brand", "OpenAI", "--json"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, timeout=60, check=True)
    for entry, shown in zip(entries, orjson.loads(done.stdout), strict=True):
        found = {
            "platform": shown["platform"],
            "citation_urls": [each["url"] for each in shown["citations"]],
            "search_queries": shown["search_queries"],
            "answer_chars": shown["text_chars"],
            "finish_reason": shown["finish_reason"],
        }
        stated = {key: entry[key] for key in found if entry[key] is not None}
        assert {key: found[key] for key in stated} == stated, entry["file"]
