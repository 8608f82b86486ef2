"""A question asked in a real Chromium: every way of typing, finishing and taking that an adapter can name."""

from typing import Any

import pytest

from desktop.practice_site.answers import MODEL, SOURCES
from domain.answers import read_answer
from tests.desktop.browser.conftest import OpenDesk
from tests.desktop.browser.practice import QUESTION, Desk

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("chromium")]

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
    "finished",
    [
        pytest.param([{"gone": "#stop", "stable_ms": 200}], id="stop button gone and text stable"),
        pytest.param([{"visible": ".answer[data-done]"}], id="a mark of whole answers"),
        pytest.param([{"request_ended": True}], id="the request has ended"),
        pytest.param([{"quiet_url": "/api/", "quiet_ms": 100}], id="no request for a while"),
        pytest.param(
            [{"visible": "#never"}, {"gone": "#stop", "visible": "[data-done]"}], id="one of several is enough"
        ),
    ],
)
async def test_the_answer_is_whole_however_the_end_is_told(open_desk: OpenDesk, finished: Any) -> None:
    desk = open_desk({"word_ms": 5}, {"answer": {"finished": finished}})
    answer = await desk.ask()
    assert [url for url in URLS if url in answer.raw] == URLS
    assert desk.session.answered == 1


@pytest.mark.parametrize(
    ("editor", "how", "send"),
    [
        ("textarea", "fill", {"key": "Enter"}),
        ("textarea", "type", {"click": "#send"}),
        ("contenteditable", "fill", {"click": "#send"}),
        ("contenteditable", "type", {"key": "Enter"}),
    ],
)
async def test_a_question_of_several_lines_is_sent_once_and_whole(
    open_desk: OpenDesk, editor: str, how: str, send: dict[str, str]
) -> None:
    question = "Which note app is best?\nAnswer briefly, with sources."
    desk = open_desk({"editor": editor}, {"input": {"how": how}})
    site = desk.driver._options.sites["practice"]
    desk.driver._options.sites["practice"] = site.model_copy(update={"submit": type(site.submit).model_validate(send)})
    await desk.ask(question)
    assert [asked.split() for asked in desk.session.questions] == [question.split()]


async def test_a_second_question_takes_its_own_answer_in_a_new_conversation(desk: Desk) -> None:
    await desk.ask("First question?")
    answer = await desk.ask("Second question?")
    assert "Second question?" in answer.raw
    assert "First question?" not in answer.raw


async def test_a_cookie_banner_over_the_page_is_dismissed(open_desk: OpenDesk) -> None:
    desk = open_desk({"cookie_banner": True})
    await desk.ask()
    assert len(desk.session.questions) == 1
