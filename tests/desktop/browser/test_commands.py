"""`giveway desktop site`, `login` and `practice-site`: what a person who writes an adapter sees."""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from typer.testing import CliRunner

from cli import app
from desktop.browser import evidence, profile
from desktop.browser.chromium import Chromium, ChromiumMissing, NoDisplay, find_chromium
from desktop.browser.sites import InvalidSite, practice_file
from desktop.practice_site.answers import SOURCES
from desktop.practice_site.site import PracticeSite
from desktop.registration import REGISTERED, Registered
from tests.desktop.browser.practice import PATIENCE

RUNNER = CliRunner()


def run(*arguments: str) -> Any:
    return RUNNER.invoke(app, ["desktop", *arguments])


def test_an_adapter_is_checked_without_asking_the_site() -> None:
    ended = run("site", "check", str(practice_file()), "--json")
    assert ended.exit_code == 0
    assert json.loads(ended.stdout.splitlines()[-1]) == {
        "file": str(practice_file()), "valid": True, "name": "practice", "platforms": ["practice"],
    }  # fmt: skip


def test_a_broken_adapter_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("version: 1\n")
    ended = run("site", "check", str(tmp_path / "mine.yaml"))
    assert isinstance(ended.exception, InvalidSite)


@pytest.mark.parametrize("what", ["template", "practice"])
def test_the_printed_adapters_can_be_used_as_they_are(what: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(run("site", what).stdout)
    assert run("site", "check", str(tmp_path / "mine.yaml")).exit_code == 0


def test_the_schema_knows_every_key() -> None:
    known = yaml.safe_load(practice_file().read_text())
    assert known.keys() <= json.loads(run("site", "schema").stdout)["properties"].keys()


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.xdist_group("chromium")
async def test_a_question_is_tried_and_what_is_read_of_the_answer_is_shown(
    practice: tuple[PracticeSite, str], chromium: Chromium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for module, name in ((evidence, "LOOK_SECONDS"), (profile, "ANSWER_SECONDS"), (profile, "STATE_SECONDS")):
        # A busy machine may take its time to show the page.
        monkeypatch.setattr(module, name, PATIENCE)
    site, url = practice
    file = tmp_path / "mine.yaml"
    file.write_text(practice_file().read_text().replace("http://127.0.0.1:8765/", f"{url}/tried/"))
    ended = await asyncio.to_thread(run, "site", "check", str(file), "--try", "Which?", "--json")
    told = json.loads(ended.stdout.splitlines()[-1])
    assert (ended.exit_code, told["kind"]) == (0, "answer")
    assert told["citations"] == [address for _, address in SOURCES]

    site.change("tried", {"answer": "rate_limit"})
    ended = await asyncio.to_thread(run, "site", "check", str(file), "--try", "Which?", "--json")
    told = json.loads(ended.stdout.splitlines()[-1])
    assert (ended.exit_code, told["code"]) == (1, "rate_limited")
    assert endings(Path(told["evidence"])) == {".json", ".png", ".html"}


def endings(folder: Path) -> set[str]:
    return {path.suffix for path in folder.iterdir()}


def test_a_login_needs_a_desktop_of_this_machine_and_names_those_there_are(tmp_path: Path) -> None:
    client = Registered("http://127.0.0.1", "0198-id", "token", "ws://127.0.0.1", "desktop-1")
    (tmp_path / REGISTERED).write_bytes(msgspec.json.encode([client]))
    ended = run("login", "--site", str(practice_file()), "--client", "desktop-2", "--state", str(tmp_path))
    assert ended.exit_code == 2
    assert "desktop-1" in ended.stderr


def test_a_login_window_needs_a_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NoDisplay, match="shows no windows"):
        Chromium(Path("/bin/true"), headed=True)


def test_a_chromium_that_is_not_there_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ChromiumMissing, match="--chromium"):
        find_chromium(Path("/nowhere/chromium"))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ChromiumMissing, match="apt-get install chromium"):
        find_chromium()


def test_a_behaviour_that_the_practice_site_does_not_know_is_told() -> None:
    ended = run("practice-site", "--behaviour", "logn=true")
    assert ended.exit_code == 2
    assert "login" in ended.stderr
