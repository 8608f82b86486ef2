"""What goes wrong has a stable code, leaves its evidence, and no page behind (2-desktop §2.4)."""

import asyncio
import json
import stat
from typing import Any

import psutil
import pytest
from playwright.async_api import Browser

from desktop.browser import evidence, look, profile
from desktop.browser.chromium import Chromium
from desktop.driver import DriverFailure, RunContext
from domain.phases import Phase
from tests.desktop.browser.conftest import OpenDesk
from tests.desktop.browser.practice import DRIVEN, PATIENCE, Desk, task, until
from tests.desktop.frames import available

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("chromium")]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take its time to show the page; what is kept of it must be whole here."""
    monkeypatch.setattr(evidence, "LOOK_SECONDS", PATIENCE)
    monkeypatch.setattr(profile, "ANSWER_SECONDS", PATIENCE)
    monkeypatch.setattr(profile, "STATE_SECONDS", PATIENCE)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that hangs is not looked at for long."""
    for module, name in ((evidence, "LOOK_SECONDS"), (look, "ANSWER_SECONDS"), (profile, "ANSWER_SECONDS")):
        monkeypatch.setattr(module, name, 0.2)


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize(
    ("behaviour", "site", "code"),
    [
        ({"opening": "error"}, {"errors": [{"code": "site_broken", "title": "went wrong"}]}, "site_broken"),
        ({"opening": "error"}, {"errors": []}, "site_error"),
        ({"opening": "other"}, {"timeouts": {"sign_in": 0.5}}, "page_not_recognised"),
        ({}, {"input": {"selector": "#nowhere"}, "new_conversation": [], "timeouts": {"input": 0.5}}, "input_timeout"),
        ({}, {"submit": {"click": "#nowhere"}, "timeouts": {"submit": 0.5}}, "submit_timeout"),
        ({"answer": "toast"}, {}, "site_error"),
        ({"answer": "rate_limit"}, {"errors": []}, "rate_limited"),
        ({"answer": "rate_limit"}, {"errors": [{"code": "slow_down", "answer_status": [429]}]}, "slow_down"),
        ({"answer": "error"}, {"errors": []}, "site_error"),
        ({"answer": "cut"}, {"answer": {"take": "response"}}, "answer_cut"),
        ({"answer": "empty"}, {"answer": {"take": "text", "finished": [{"request_ended": True}]}}, "answer_empty"),
        ({"answer": "endless"}, {"timeouts": {"answer": 0.5}}, "answer_timeout"),
    ],
)
async def test_every_trouble_has_its_code_and_leaves_no_page(
    open_desk: OpenDesk, behaviour: dict[str, Any], site: dict[str, Any], code: str
) -> None:
    await fails_as(code, open_desk(behaviour, site))


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    ("behaviour", "timeouts", "code"),
    [
        ({"opening": "hang"}, {"navigate": 0.5}, "navigation_timeout"),
        ({"answer": "loop"}, {"submit": 0.5}, "submit_timeout"),
    ],
)
async def test_a_page_that_hangs_is_a_trouble_too(
    open_desk: OpenDesk, behaviour: dict[str, Any], timeouts: dict[str, float], code: str
) -> None:
    await fails_as(code, open_desk(behaviour, {"timeouts": timeouts}))


async def fails_as(code: str, desk: Desk) -> None:
    failure = await desk.fails()
    assert failure.code == code
    assert pages_of(desk) == 0
    [facts] = [json.loads(path.read_text()) for path in (desk.home / "failures").glob("*.json")]
    assert (facts["code"], facts["platform"]) == (code, "practice")
    assert f"failures/{next((desk.home / 'failures').glob('*.json')).stem}" in failure.detail


def pages_of(desk: Desk) -> int:
    context = desk.driver.profile._context
    return len(context.pages) if context is not None else 0


async def test_a_site_that_is_not_there_is_told_by_the_networks_own_word(open_desk: OpenDesk) -> None:
    desk = open_desk()
    site = desk.driver._options.sites["practice"]
    gone = site.model_copy(update={"start_url": "http://127.0.0.1:9/?token=secret"})
    desk.driver._options.sites["practice"] = gone
    failure = await desk.fails()
    assert failure.code == "navigation_failed"
    assert "net::ERR_" in failure.detail
    assert "secret" not in failure.detail


async def test_a_platform_without_an_adapter_is_refused_and_no_more_of_it_is_asked_for(open_desk: OpenDesk) -> None:
    desk, context = open_desk(probe_every=0.0), RunContext()
    with pytest.raises(DriverFailure, match=r"no_site.*practice"):
        await desk.driver.run_phase(Phase.PREPARING, available(platform="elsewhere"), context)
    await desk.driver.release(task(), context)
    await desk.driver.prober.look()
    assert desk.driver.sessions() == {"elsewhere": "login_required"}


@pytest.mark.usefixtures("patient")
async def test_the_evidence_shows_the_page_and_keeps_no_secret(open_desk: OpenDesk) -> None:
    desk = open_desk({"login": True}, human_wait=0.2)
    token = desk.site.sign_in(desk.session)
    frame, context = task(), RunContext()
    await desk.run((Phase.PREPARING,), frame, context)
    browser_context = desk.driver.profile._context
    assert browser_context is not None
    # A page that shows what should stay secret: its own cookie, in its text and in an address.
    site = desk.driver._options.sites["practice"]
    cookie = {"name": "other", "value": token, "url": site.start_url}
    await browser_context.add_cookies([cookie])  # type: ignore[list-item]
    page = context.resources.eye.page
    await page.add_init_script(f"addEventListener('load', () => document.body.append('token {token}'))")
    with pytest.raises(DriverFailure, match="login_required"):
        await desk.run(DRIVEN, frame, context)
    await desk.driver.release(frame, context)
    folder = desk.home / "failures"
    files = {path.suffix: path for path in folder.iterdir()}
    assert files.keys() == {".json", ".html", ".png"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.values()} == {0o600}
    html, facts = files[".html"].read_text(), json.loads(files[".json"].read_text())
    assert "Sign in" in html
    assert "token [removed]" in html
    for secret in (token, "practice-ticket", "practice-hidden-ticket", "practice-csrf-token", "location.href"):
        assert secret not in html + json.dumps(facts)
    assert facts["url"].endswith("/login")
    assert (facts["phase"], facts["task_id"], facts["site"]) == ("AUTHENTICATING", frame.task_id, "practice")
    assert files[".png"].read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("phase", [Phase.PREPARING, Phase.NAVIGATING, Phase.SUBMITTING, Phase.WAITING])
async def test_a_task_stopped_at_once_in_any_phase_leaves_no_page(open_desk: OpenDesk, phase: Phase) -> None:
    desk = open_desk({"answer": "endless", "page_seconds": 0.3 if phase is Phase.NAVIGATING else 0.0})
    frame, context = task(), RunContext()
    await desk.run(DRIVEN[: DRIVEN.index(phase)], frame, context)
    running = asyncio.create_task(desk.driver.run_phase(phase, frame, context))
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled() or phase is Phase.SUBMITTING
    await desk.driver.release(frame, context)
    assert pages_of(desk) == 0
    assert not desk.driver._visits


async def test_a_page_that_is_only_being_opened_is_closed_also_when_the_release_is_cancelled(
    desk: Desk, chromium: Chromium
) -> None:
    await desk.ask()
    context = desk.driver.profile._context
    assert context is not None
    opened: list[Any] = []
    context.on("page", lambda page: opened.append(page))
    frame, attempt = task(), RunContext()
    for stopped in (desk.driver.run_phase(Phase.PREPARING, frame, attempt), desk.driver.release(frame, attempt)):
        running = asyncio.ensure_future(stopped)
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await until(lambda: len(opened) == 1 and not context.pages, "the page was opened and closed")


async def test_a_page_whose_renderer_dies_fails_and_the_next_question_is_answered(desk: Desk) -> None:
    desk.behave(answer="endless")
    asking = asyncio.create_task(desk.fails())
    await until(lambda: desk.session.waiting == 1, "the question is asked")
    [page] = desk.driver.profile._context.pages  # type: ignore[union-attr]
    crash = asyncio.create_task(page.goto("chrome://crash"))
    assert (await asking).code == "page_crashed"
    await asyncio.gather(crash, return_exceptions=True)
    desk.behave(answer="stream")
    await desk.ask()


async def test_a_browser_that_is_killed_fails_what_ran_and_is_started_again(desk: Desk, chromium: Chromium) -> None:
    desk.behave(answer="endless")
    asking = asyncio.create_task(desk.fails())
    await until(lambda: desk.session.waiting == 1, "the question is asked")
    before = await chromium.browser()
    [root] = roots_of(before)
    root.kill()
    assert (await asking).code == "browser_crashed"
    desk.behave(answer="stream")
    answer = await desk.ask()
    assert "Nimbus" in answer.raw
    assert await chromium.browser() is not before


def roots_of(_: Browser) -> list[psutil.Process]:
    """The browser's own process: a Chromium below this one that is no part of another."""
    below = psutil.Process().children(recursive=True)
    chromiums = [process for process in below if "--remote-debugging" in " ".join(process.cmdline())]
    return [process for process in chromiums if "--type=" not in " ".join(process.cmdline())]


async def test_after_all_that_nothing_is_left_open(desk: Desk, chromium: Chromium) -> None:
    await desk.ask()
    browser = await chromium.browser()
    await desk.driver.close()
    assert [len(context.pages) for context in browser.contexts] == []
    await chromium.close()
    await until(lambda: not alive_below(), "no process")


def alive_below() -> list[str]:
    below = psutil.Process().children(recursive=True)
    names = [process.name() for process in below if process.status() != psutil.STATUS_ZOMBIE]
    return [name for name in names if "chrom" in name or "node" in name]
