"""What is kept of failed pages is bounded, and holds nothing that is secret."""

import os
import time
from pathlib import Path

import pytest
from playwright.async_api import Error

from desktop.browser import evidence
from desktop.browser.evidence import FOLDER, KEEP_SECONDS, Evidence, Failure, scrubbed
from desktop.browser.look import first_line


def failure(number: int) -> Failure:
    return Failure("0198-task", "openai", "site", "WAITING", "answer_timeout", "", 0.0, at=1_750_000_000.0 + number)


async def test_the_newest_stay_within_the_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "MOST_FILES", 3)
    kept = Evidence(tmp_path)
    names = [await kept.keep(failure(number), None, None) for number in range(5)]
    assert sorted(path.stem for path in (tmp_path / FOLDER).iterdir()) == names[2:]


async def test_the_newest_stay_within_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Evidence(tmp_path)
    await kept.keep(failure(0), None, None)
    [one] = (tmp_path / FOLDER).iterdir()
    monkeypatch.setattr(evidence, "MOST_BYTES", 2 * one.stat().st_size)
    names = [await kept.keep(failure(number), None, None) for number in range(1, 4)]
    assert sorted(path.stem for path in (tmp_path / FOLDER).iterdir()) == names[1:]


async def test_what_is_old_goes(tmp_path: Path) -> None:
    kept = Evidence(tmp_path)
    await kept.keep(failure(0), None, None)
    [old] = (tmp_path / FOLDER).iterdir()
    os.utime(old, times=(0, time.time() - KEEP_SECONDS - 60))
    name = await kept.keep(failure(1), None, None)
    assert [path.stem for path in (tmp_path / FOLDER).iterdir()] == [name]


async def test_a_disk_that_refuses_costs_only_the_evidence(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file where the folder should be")
    assert await Evidence(tmp_path).keep(failure(0), None, None) is None


async def test_a_task_id_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    odd = Failure("../../etc/x", "openai", "site", "WAITING", "answer_timeout", "", 0.0)
    name = await Evidence(tmp_path).keep(odd, None, None)
    assert (tmp_path / FOLDER / f"{name}.json").exists()


SECRET = "se'cr&et+tok/en=="


@pytest.mark.parametrize(
    "html",
    [
        f"<p>{SECRET}</p>",
        "<p>se&#x27;cr&amp;et+tok/en==</p>",
        "<a title='x?t=se%27cr%26et%2Btok%2Fen%3D%3D'>x</a>",
        f"<script>let token = 1; /* {SECRET} */</script>",
        "<script>never closed se'cr",
        '<a href="/x?ticket=se%27cr">x</a>',
        "<img src='/x#se%27cr'>",
        '<input type=hidden name=t value="se&#x27;cr">',
        "<meta name=csrf content='se%27cr'>",
    ],
)
def test_no_secret_stays_in_the_page_however_it_is_written(html: str) -> None:
    left = scrubbed(f"<body>{html}", [SECRET])
    assert "cr" not in left.replace("script", "").replace("csrf", "").replace("[removed]", "")


def test_a_log_line_names_no_querys_secret() -> None:
    error = Error("Page.goto: net::ERR_ABORTED at https://a.example/x?ticket=secret#secret\nCall log: secret")
    assert first_line(error) == "Page.goto: net::ERR_ABORTED at https://a.example/x"


def test_what_is_no_secret_stays() -> None:
    html = '<main class="answer"><a href="https://www.example.com/a">A</a><button id="send">Send</button></main>'
    assert scrubbed(html, ["something else"]) == html
