"""The file of endpoints: what it may say, and what a person is told when it does not fit (2-desktop §2.4)."""

import re
from pathlib import Path
from typing import Any

import pytest

from desktop.openai.endpoints import EndpointsInvalid, KeyMissing, Style, load_endpoints, single_endpoint

GOOD = """
platforms:
  openai:
    base_url: https://api.openai.com/v1/
    style: responses
    model: m-large
    key_env: SOME_KEY
    stream: true
    headers: {OpenAI-Project: p-1}
    body: {tools: [{type: web_search}]}
    requests: 60
  "*":
    base_url: http://127.0.0.1:8000/v1
    model: local
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "endpoints.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_every_platform_gets_its_own_endpoint_or_the_one_for_all(tmp_path: Path) -> None:
    endpoints = load_endpoints(written(tmp_path, GOOD))
    openai, other = endpoints.of("openai"), endpoints.of("deepseek")
    assert openai is not None
    assert other is not None
    assert (openai.url, openai.style, openai.per) == ("https://api.openai.com/v1/responses", Style.RESPONSES, 60.0)
    assert (other.url, other.stream, other.key()) == ("http://127.0.0.1:8000/v1/chat/completions", False, None)


def test_a_platform_that_is_not_named_has_no_endpoint_without_one_for_all(tmp_path: Path) -> None:
    endpoints = load_endpoints(written(tmp_path, GOOD.replace('"*"', "kimi")))
    assert endpoints.of("deepseek") is None


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("    api_key: sk-secret-1234567890\n", "key_env"),
        ("    modle: x\n", "platforms.kimi.modle"),
        ("    base_url: ftp://host/v1\n", "platforms.kimi.base_url"),
        ("    base_url: https://user:secret-1234567890@host/v1\n", "platforms.kimi.base_url"),
        ("    key_env: A\n    key_file: b\n", "not both"),
        ("    headers: {X-Api-Key: secret-1234567890}\n", "`X-Api-Key` carries a key: use key_header"),
        ("    body: {messages: []}\n", "`messages` is set by the driver"),
        ("    timeout: 0\n", "platforms.kimi.timeout"),
        ("    requests: 0\n", "platforms.kimi.requests"),
        ("    style: completions\n", "platforms.kimi.style"),
    ],
)
def test_what_does_not_fit_is_named_without_quoting_it(tmp_path: Path, line: str, told: str) -> None:
    base = "" if "base_url" in line else "    base_url: https://host/v1\n"
    file = written(tmp_path, f"platforms:\n  kimi:\n    model: m\n{base}{line}")
    with pytest.raises(EndpointsInvalid) as refused:
        load_endpoints(file)
    assert str(file) in refused.value.message
    assert told in refused.value.message
    assert "secret" not in refused.value.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the file"),
        ("platforms: {}", "platforms"),
        ("a: [", "line"),
        ("- x", "the file"),
        ("model: x", "platforms"),
    ],
)
def test_a_file_of_another_shape_is_refused_in_words(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(EndpointsInvalid, match=told):
        load_endpoints(written(tmp_path, text))


def test_the_example_of_the_page_is_a_file_that_works(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "run-desktops.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```yaml\n(.*?)```", page, re.S)
    endpoints = load_endpoints(written(tmp_path, example))
    assert set(endpoints.platforms) == {"openai", "deepseek", "*"}


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EndpointsInvalid, match=r"nothing\.yaml cannot be read: No such file"):
        load_endpoints(tmp_path / "nothing.yaml")


@pytest.mark.parametrize("value", ["", "  \n", "schlüssel", "two\nlines"])
def test_a_key_that_no_header_can_carry_is_no_key(tmp_path: Path, value: str) -> None:
    file = written(tmp_path, value)
    with pytest.raises(KeyMissing) as refused:
        single_endpoint(base_url="https://host/v1", model="m", key_file=file).check_keys()
    assert "schlüssel" not in refused.value.message


def test_secrets_are_not_in_the_text_of_an_endpoint() -> None:
    fields: dict[str, Any] = {"headers": {"X-Key": "hidden-1"}, "body": {"user": "hidden-2"}}
    assert "hidden" not in repr(single_endpoint(base_url="https://host/v1", model="m", **fields))
