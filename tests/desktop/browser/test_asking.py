"""A question asked in a real Chromium: every way of typing, finishing and taking that an adapter can name."""

from typing import Any

import pytest

from desktop.browser import look
from desktop.driver import RunContext
from desktop.practice_site.answers import MODEL, SOURCES
from domain.answers import read_answer
from tests.desktop.browser.conftest import OpenDesk
from tests.desktop.browser.practice import DRIVEN, QUESTION, Desk, task

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("chromium")]

URLS = [url for _, url in SOURCES]


async def test_the_html_of_the_answer_is_read_with_its_text_and_its_sources(desk: Desk) -> None:
    answer = await desk.ask()
    assert (answer.content_type, answer.model, answer.request_id) == ("text/html", MODEL, "practice-1")
    read = read_answer(answer.raw.encode())
    assert read.kind.is_answer
    assert QUESTION in read.text
    assert "Nimbus" in read.text
    assert [source.url for source in read.citations] == URLS
    assert desk.driver.sessions() == {"practice": "healthy"}


async def test_the_visible_text_alone_can_be_taken(open_desk: OpenDesk) -> None:
    answer = await open_desk(site_changes={"answer": {"take": "text"}}).ask()
    assert answer.content_type == "text/plain"
    assert answer.raw.startswith(f"You asked: {QUESTION}")
    assert "<" not in answer.raw


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
async def test_the_stream_itself_is_taken_as_it_was_received(open_desk: OpenDesk, transport: str) -> None:
    desk = open_desk({"transport": transport}, {"answer": {"take": "response"}})
    answer = await desk.ask("最好的笔记软件是什么?")
    assert answer.content_type == "text/event-stream"
    assert answer.raw.startswith("data: {")
    assert answer.raw.endswith("data: [DONE]\n\n")
    read = read_answer(answer.raw.encode())
    assert (read.kind.is_answer, read.model) == (True, MODEL)
    assert "最好的笔记软件是什么?" in read.text


@pytest.mark.parametrize(
    ("editor", "how", "send", "finished"),
    [
        ("textarea", "fill", {"key": "Enter"}, [{"gone": "#stop", "stable_ms": 200}]),
        ("textarea", "type", {"click": "#send"}, [{"visible": ".answer[data-done]"}]),
        ("contenteditable", "fill", {"click": "#send"}, [{"request_ended": True}]),
        ("contenteditable", "type", {"key": "Enter"}, [{"quiet_url": "/api/", "quiet_ms": 100}]),
        ("textarea", "fill", {"click": "#send"}, [{"visible": "#never"}, {"gone": "#stop", "visible": "[data-done]"}]),
    ],
)
async def test_a_question_of_several_lines_is_sent_once_and_its_answer_taken_whole_however_the_end_is_told(
    open_desk: OpenDesk, editor: str, how: str, send: dict[str, str], finished: Any
) -> None:
    # As it comes from Windows: typed, a carriage return would be the Enter key.
    question = "Which note app is best?\r\nAnswer briefly, with sources."
    desk = open_desk({"editor": editor, "word_ms": 5}, {"input": {"how": how}, "answer": {"finished": finished}})
    site = desk.driver._options.sites["practice"]
    desk.driver._options.sites["practice"] = site.model_copy(update={"submit": type(site.submit).model_validate(send)})
    answer = await desk.ask(question)
    assert [asked.split() for asked in desk.session.questions] == [question.split()]
    assert [url for url in URLS if url in answer.raw] == URLS
    assert desk.session.answered == 1


async def test_a_page_that_says_nothing_is_not_taken_to_have_lost_its_stop_button(
    open_desk: OpenDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = open_desk()
    frame, context = task(), RunContext()
    await desk.run(DRIVEN[:3], frame, context)
    eye = context.resources.eye
    assert await eye.gone("#stop")
    monkeypatch.setattr(look, "ANSWER_SECONDS", 0.1)
    await eye.page.evaluate("setTimeout(hang)")
    assert not await eye.gone("#stop")
    await desk.driver.release(frame, context)


async def test_a_second_question_takes_its_own_answer_in_a_new_conversation(desk: Desk) -> None:
    await desk.ask("First question?")
    answer = await desk.ask("Second question?")
    assert "Second question?" in answer.raw
    assert "First question?" not in answer.raw


async def test_a_cookie_banner_over_the_page_is_dismissed(open_desk: OpenDesk) -> None:
    desk = open_desk({"cookie_banner": True})
    await desk.ask()
    assert len(desk.session.questions) == 1
