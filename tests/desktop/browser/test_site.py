"""Errors of a site adapter name the file, the key and what to do; the shipped ones are whole."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from desktop.browser.site import Site
from desktop.browser.sites import InvalidSite, load_site, load_sites, practice_file, template_file


@pytest.fixture
def known() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(practice_file().read_text())
    return content


def problem(tmp_path: Path, content: Any) -> str:
    file = tmp_path / "mine.yaml"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    with pytest.raises(InvalidSite) as refused:
        load_site(file)
    assert str(file) in str(refused.value)
    return str(refused.value).removeprefix(f"{file}: ")


def test_the_shipped_adapters_are_valid() -> None:
    assert load_site(practice_file()).platforms == ["practice"]
    assert load_site(template_file()).name == "my-site"


def test_the_template_names_every_key_there_is() -> None:
    text = template_file().read_text()
    for model in (Site, *(field.annotation for field in Site.model_fields.values())):
        for key in getattr(model, "model_fields", ()):
            assert f"{key}:" in text, key


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"inptu": {}}, "inptu: there is no such key; mend its spelling or leave it out"),
        ({"input": None}, "input: must be a mapping of keys"),
        ({"start_url": "chat.example.com"}, "start_url: must be a whole address, http:// or https://"),
        ({"start_url": "https://me:secret@chat.example.com/"}, "start_url: must not hold a user name or a password"),
        ({"blocked": [{"title": "("}]}, "blocked[0].title: is no regular expression"),
        ({"human_check": [{}]}, "human_check[0]: give at least one of url, title, selector, text"),
        ({"login": {"signed_in": []}}, "login.signed_in: list should have at least 1 item"),
        ({"submit": {"click": "#a", "key": "Enter"}}, "submit: give exactly one of click, key"),
        ({"new_conversation": [{"optional": True}]}, "new_conversation[0]: give exactly one of click, press, goto"),
        ({"errors": [{"selector": "#a", "code": "Not A Code"}]}, "errors[0].code: string should match pattern"),
        ({"answer": {"take": "response", "finished": [{"gone": "#a"}]}}, "answer: take: response needs request"),
        ({"answer": {"finished": [{"gone": "#a"}]}}, "answer: take: html needs selector"),
        ({"answer": {"selector": "#a", "finished": [{}]}}, "answer.finished[0]: give at least one of gone, visible"),
        ({"answer": {"selector": "#a", "finished": [{"request_ended": True}]}}, "the file: request_ended and answer_"),
        ({"platforms": ["Open AI"]}, "platforms[0]: string should match pattern"),
    ],
)
def test_a_key_that_cannot_be_used_is_named_with_what_to_do(
    tmp_path: Path, known: dict[str, Any], change: dict[str, Any], told: str
) -> None:
    assert problem(tmp_path, {**known, **change}).startswith(told)


def test_all_errors_of_a_file_are_told_at_once(tmp_path: Path, known: dict[str, Any]) -> None:
    told = problem(tmp_path, {**known, "version": 2, "nmae": "x"})
    assert len(told.splitlines()) == 2


@pytest.mark.parametrize("content", ["- a\n", "", "a: [", "a: \x00", "!!python/object:os.system {}"])
def test_what_is_no_mapping_in_yaml_is_refused(tmp_path: Path, content: str) -> None:
    problem(tmp_path, content)


def test_a_missing_file_and_an_empty_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidSite, match=r"cannot be read \(No such file"):
        load_sites(tmp_path / "nowhere.yaml")
    with pytest.raises(InvalidSite, match=r"no site adapter \(\*\.yaml\)"):
        load_sites(tmp_path)


def test_two_files_that_name_one_platform_are_refused_and_both_named(tmp_path: Path, known: dict[str, Any]) -> None:
    for name in ("a.yaml", "b.yml"):
        (tmp_path / name).write_text(yaml.safe_dump(known))
    with pytest.raises(InvalidSite, match=r"b\.yml: platforms: practice is already in a\.yaml"):
        load_sites(tmp_path)


def test_a_folder_is_read_by_platform(tmp_path: Path, known: dict[str, Any]) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump({**known, "platforms": ["openai", "qwen"]}))
    (tmp_path / "notes.txt").write_text("not an adapter")
    assert load_sites(tmp_path).keys() == {"openai", "qwen"}
