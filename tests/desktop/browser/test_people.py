"""Logins and human checks: the desktop says so at once, waits for a person, and goes on (2-desktop §2.3, §2.4)."""

import asyncio
import json
import stat

import pytest

from desktop.browser.chromium import Chromium
from desktop.browser.health import Health
from desktop.browser.login import log_in
from desktop.browser.profile import LOGIN_FILE
from desktop.driver import RunContext
from desktop.practice_site.behaviour import LOGIN_COOKIE, PASSWORD
from domain.phases import Phase
from tests.desktop.browser.conftest import OpenDesk
from tests.desktop.browser.practice import Desk, task, until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("chromium")]


async def person_signs_in(desk: Desk) -> None:
    """On the login page that the desktop shows, as somebody at its window would."""
    [page] = desk.driver.profile._context.pages  # type: ignore[union-attr]
    await page.fill("input[name=name]", "somebody")
    await page.fill("input[name=password]", PASSWORD)
    await page.click("button[type=submit]")


async def test_a_login_redirect_is_told_at_once_waited_for_and_kept(open_desk: OpenDesk) -> None:
    desk = open_desk({"login": True})
    asking = asyncio.create_task(desk.ask())
    await desk.health("login_required")
    assert not asking.done()
    await person_signs_in(desk)
    await asking
    assert desk.driver.sessions() == {"practice": "healthy"}
    kept = desk.home / LOGIN_FILE
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert [cookie["name"] for cookie in json.loads(kept.read_text())["cookies"]] == ["practice-login"]

    await desk.driver.close()
    again = open_desk({"login": True}, name=desk.name)
    await again.ask()
    assert len(desk.session.questions) == 2


async def test_nothing_pauses_while_a_login_is_waited_for(open_desk: OpenDesk) -> None:
    desk = open_desk({"login": True}, step=0.01)
    frame, context = task(), RunContext()
    await desk.run((Phase.PREPARING, Phase.NAVIGATING), frame, context)
    signing_in = asyncio.create_task(desk.driver.run_phase(Phase.AUTHENTICATING, frame, context))
    await desk.health("login_required")
    opened = desk.session.opened
    desk.behave(login=False)
    assert await signing_in is False
    assert desk.session.opened > opened
    await desk.driver.release(frame, context)


async def test_without_a_person_the_task_fails_and_the_health_is_remembered(open_desk: OpenDesk) -> None:
    desk = open_desk({"login": True}, human_wait=0.2)
    failure = await desk.fails()
    assert failure.code == "login_required"
    assert desk.driver.sessions() == {"practice": "login_required"}


@pytest.mark.parametrize("where", ["open", "answer"])
async def test_a_human_check_is_waited_for_and_then_it_goes_on(open_desk: OpenDesk, where: str) -> None:
    desk = open_desk({"human_check": where})
    asking = asyncio.create_task(desk.ask())
    await desk.health("human_check")
    assert not asking.done()
    desk.behave(human=True)
    await asking
    assert desk.driver.sessions() == {"practice": "healthy"}
    assert len(desk.session.questions) == 1


async def test_a_human_check_that_nobody_passes_fails(open_desk: OpenDesk) -> None:
    desk = open_desk({"human_check": "answer"}, human_wait=0.2)
    assert (await desk.fails()).code == "human_check"
    assert desk.driver.sessions() == {"practice": "human_check"}


async def test_the_time_of_a_person_is_not_the_time_of_the_phase(open_desk: OpenDesk) -> None:
    desk = open_desk({"human_check": "open"}, {"timeouts": {"sign_in": 1.0}})
    asking = asyncio.create_task(desk.ask())
    await desk.health("human_check")
    await asyncio.sleep(1.2)  # the length of time is the rule itself: longer than the phase may take
    desk.behave(human=True)
    await asking


async def test_who_is_signed_out_while_the_answer_is_waited_for_fails_at_once(open_desk: OpenDesk) -> None:
    desk = open_desk({"answer": "signed_out"})
    failure = await desk.fails()
    assert failure.code == "login_required"
    assert desk.driver.sessions() == {"practice": "login_required"}


async def test_a_block_page_fails_at_once_as_blocked(open_desk: OpenDesk) -> None:
    desk = open_desk({"blocked": True})
    assert (await desk.fails()).code == "blocked"
    assert desk.driver.sessions() == {"practice": "blocked"}


async def test_an_unhealthy_login_is_looked_at_again_without_a_task(open_desk: OpenDesk) -> None:
    desk = open_desk({"login": True}, human_wait=0.1, probe_every=0.01)
    await desk.fails()
    await desk.driver.prober.look()
    assert desk.driver.sessions() == {"practice": "login_required"}
    desk.behave(login=False)
    await asyncio.sleep(0.02)
    await desk.driver.prober.look()
    assert desk.driver.sessions() == {"practice": "healthy"}
    opened = desk.session.opened
    await asyncio.sleep(0.02)
    await desk.driver.prober.look()
    assert desk.session.opened == opened


async def test_a_login_made_in_another_window_is_taken_by_a_waiting_task(
    open_desk: OpenDesk, chromium: Chromium
) -> None:
    desk = open_desk({"login": True})
    asking = asyncio.create_task(desk.ask())
    await desk.health("login_required")
    site = desk.driver._options.sites["practice"]
    in_window = asyncio.create_task(log_in(site, desk.home, chromium, patience=20, poll=0.02))
    await person_in_the_other_window(desk, chromium)
    assert await in_window is Health.HEALTHY
    await asking
    assert desk.driver.sessions() == {"practice": "healthy"}


async def test_a_login_made_between_two_questions_is_used_by_the_next_one_and_not_overwritten(
    open_desk: OpenDesk,
) -> None:
    desk = open_desk()
    await desk.ask()
    login = desk.site.sign_in(desk.session)
    desk.behave(login=True)
    cookie = {
        "name": LOGIN_COOKIE, "value": login, "domain": "127.0.0.1", "path": f"/{desk.name}/", "expires": -1,
        "httpOnly": True, "secure": False, "sameSite": "Lax",
    }  # fmt: skip
    state = {"cookies": [cookie], "origins": []}
    (desk.home / LOGIN_FILE).write_text(json.dumps(state))
    await desk.driver.profile.save(at_once=True)
    assert json.loads((desk.home / LOGIN_FILE).read_text()) == state
    await desk.ask()
    assert len(desk.session.questions) == 2


async def person_in_the_other_window(desk: Desk, chromium: Chromium) -> None:
    browser, own = await chromium.browser(), desk.driver.profile._context
    others = [page for context in browser.contexts if context is not own for page in context.pages]
    while not (pages := [page for page in others if page.url.startswith("http")]):
        await asyncio.sleep(0.01)
        others = [page for context in browser.contexts if context is not own for page in context.pages]
    await pages[0].fill("input[name=password]", PASSWORD)
    await pages[0].click("button[type=submit]")


async def test_a_window_that_nobody_signs_in_to_keeps_nothing(open_desk: OpenDesk, chromium: Chromium) -> None:
    desk = open_desk({"login": True})
    site = desk.driver._options.sites["practice"]
    assert await log_in(site, desk.home, chromium, patience=0.3, poll=0.02) is Health.LOGIN_REQUIRED
    assert not (desk.home / LOGIN_FILE).exists()
    assert desk.driver.sessions() == {}
    browser = await chromium.browser()
    await until(lambda: all(context is desk.driver.profile._context for context in browser.contexts), "no window left")
