"""Logins and human checks: the desktop says so at once, waits for a person, and goes on (2-desktop §2.3, §2.4)."""

import asyncio
import json
import stat

import pytest

from desktop.browser.chromium import Chromium
from desktop.browser.clock import ClockStopped
from desktop.browser.health import Health
from desktop.browser.login import log_in
from desktop.browser.profile import LOGIN_FILE
from desktop.browser.site import Submit
from desktop.driver import DriverFailure, RunContext
from desktop.practice_site.behaviour import LOGIN_COOKIE, PASSWORD
from domain.phases import Phase
from tests.desktop.browser.conftest import OpenDesk
from tests.desktop.browser.practice import PATIENCE, Desk, task, until

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.xdist_group("chromium"),
    pytest.mark.usefixtures("no_pictures"),
]


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


@pytest.mark.parametrize("where", ["open", "typing", "answer"])
async def test_a_human_check_is_waited_for_and_then_it_goes_on(open_desk: OpenDesk, where: str) -> None:
    desk = open_desk({"human_check": where})
    site = desk.driver._options.sites["practice"]
    # A key goes through what lies over the field; a click would wait by itself.
    desk.driver._options.sites["practice"] = site.model_copy(update={"submit": Submit(key="Enter")})
    asking = asyncio.create_task(desk.ask())
    await desk.health("human_check")
    assert not asking.done()
    assert len(desk.session.questions) == (1 if where == "answer" else 0)
    desk.behave(human=True)
    await asking
    assert desk.driver.sessions() == {"practice": "healthy"}
    assert len(desk.session.questions) == 1


async def test_a_human_check_that_nobody_passes_fails(open_desk: OpenDesk) -> None:
    desk = open_desk({"human_check": "answer"}, human_wait=0.2)
    assert (await desk.fails()).code == "human_check"
    assert desk.driver.sessions() == {"practice": "human_check"}


async def test_the_time_of_a_person_is_not_the_time_of_the_phase(open_desk: OpenDesk) -> None:
    desk = open_desk({"human_check": "open"}, {"timeouts": {"sign_in": 120.0}}, human_wait=600.0)
    frame, context = task(), RunContext()
    await desk.run((Phase.PREPARING, Phase.NAVIGATING), frame, context)
    signing_in = asyncio.create_task(desk.driver.run_phase(Phase.AUTHENTICATING, frame, context))
    await desk.health("human_check")
    limit = context.resources._limit
    await until(lambda: limit.when() - asyncio.get_running_loop().time() > 500, "the phase's clock is stopped")
    desk.behave(human=True)
    await signing_in
    assert limit.when() - asyncio.get_running_loop().time() < 120
    await desk.driver.release(frame, context)


async def test_a_clock_that_was_stopped_has_as_much_time_left_as_before() -> None:
    moved: list[float] = []
    async with asyncio.timeout(0.05) as limit:
        async with ClockStopped(limit, 60.0, moved.append):
            await asyncio.sleep(0.1)  # longer than the phase may take: the length is the rule itself
        assert moved == [limit.when()]


async def test_a_stopped_clock_has_its_own_end() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60.0) as limit, ClockStopped(limit, 0.01, lambda _: None):
            await asyncio.Event().wait()


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
    in_window = asyncio.create_task(log_in(site, desk.home, chromium, patience=PATIENCE, poll=0.02))
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


async def test_a_site_that_is_not_there_is_told_and_no_window_stays(open_desk: OpenDesk, chromium: Chromium) -> None:
    desk = open_desk()
    site = desk.driver._options.sites["practice"].model_copy(update={"start_url": "http://127.0.0.1:9/?token=secret"})
    with pytest.raises(DriverFailure, match=r"navigation_failed: net::ERR_\w+$"):
        await log_in(site, desk.home, chromium, patience=PATIENCE, poll=0.02)
    browser = await chromium.browser()
    await until(lambda: browser.contexts == [], "no window left")


async def test_a_login_file_that_no_browser_takes_costs_only_itself(open_desk: OpenDesk) -> None:
    desk = open_desk()
    await desk.driver.profile.open_page()
    (desk.home / LOGIN_FILE).parent.mkdir(exist_ok=True)
    (desk.home / LOGIN_FILE).write_text(json.dumps({"cookies": [{"name": "a"}], "origins": []}))
    await desk.driver.profile.open_page()
    await desk.driver.close()
    await open_desk(name=desk.name).ask()
    assert len(desk.session.questions) == 1


async def test_what_looks_like_a_token_inside_a_kept_value_is_a_secret_too(desk: Desk) -> None:
    page = await desk.driver.profile.open_page()
    await page.goto(desk.driver._options.sites["practice"].start_url)
    token = "eyJhbGciOi.J9-secret_1234"
    await page.evaluate("token => localStorage.setItem('auth', JSON.stringify({user: 'me', token}))", token)
    assert token in await desk.driver.profile.secrets()


async def test_a_window_that_nobody_signs_in_to_keeps_nothing(open_desk: OpenDesk, chromium: Chromium) -> None:
    desk = open_desk({"login": True})
    site = desk.driver._options.sites["practice"]
    assert await log_in(site, desk.home, chromium, patience=0.3, poll=0.02) is Health.LOGIN_REQUIRED
    assert not (desk.home / LOGIN_FILE).exists()
    assert desk.driver.sessions() == {}
    browser = await chromium.browser()
    await until(lambda: all(context is desk.driver.profile._context for context in browser.contexts), "no window left")
