"""The parse of whole answers (3-results §3.1, §3.3)."""

import time
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.parsing.mentions import BrandName
from domain.parsing.result import ParsedAnswer, SourceLink, parse_answer

NAMES = (
    BrandName("acme", "brand", "Acme"),
    BrandName("foo", "competitor", "Foo"),
    BrandName("hp", "competitor", "HP"),
)


def parse(text: str, *citations: SourceLink, question: str | None = None) -> ParsedAnswer:
    return parse_answer(
        text,
        question=question,
        names=NAMES,
        own_domains=["acme.com"],
        competitor_domains=["foo.com"],
        citation_urls=citations,
    )


def test_a_brand_in_a_list() -> None:
    answer = parse("1. Foo\n2. Acme\n\nFoo 与 Acme 都好，Foo 更便宜。")
    assert (answer.brand_mentioned, answer.brand_count, answer.brand_position) == (True, 2, 2)
    assert answer.share_of_voice == pytest.approx(2 / 5)
    assert (answer.absence, answer.confidence, answer.badcase_reason) == (False, 1.0, None)
    assert answer.extractor_version == "v2"


def test_absence_is_not_visibility() -> None:
    answer = parse("没有找到关于Acme的信息。Foo 很有名。")
    assert (answer.brand_mentioned, answer.brand_count, answer.absence) == (False, 0, True)
    assert (answer.brand_position, answer.share_of_voice) == (None, 0.0)


def test_no_names_have_no_share() -> None:
    assert parse("nobody here").share_of_voice is None


def test_structured_citations_go_first_and_keep_their_order() -> None:
    answer = parse(
        "[x](https://ignored.com)",
        ("https://www.foo.com/a?utm_source=x", "T", "Foo"),
        ("", "no url", None),
        ("collections://1", None, None),
        ("http://blog.acme.com/", "", None),
        ("https://foo.com/a", None, None),
        ("https://notacme.com", None, None),
    )
    shown = [(each.ordinal, each.domain, each.owner) for each in answer.citations]
    assert shown == [
        (1, "foo.com", "competitor"),
        (3, "acme.com", "own"),
        (5, "notacme.com", "other"),
    ]
    first = answer.citations[0]
    assert (first.raw_url, first.title, first.site_name) == (
        "https://www.foo.com/a?utm_source=x",
        "T",
        "Foo",
    )
    assert first.citation_hash == sha256(b"https://foo.com/a").hexdigest()


GROUNDED = "https://vertexaisearch.cloud.google.com/grounding-api-redirect/AbC="


@pytest.mark.parametrize(
    ("url", "title", "site_name", "domain", "owner"),
    [
        (GROUNDED, "wikipedia.org", None, "wikipedia.org", "other"),
        (GROUNDED, "blog.acme.com", None, "acme.com", "own"),
        (GROUNDED, "www.foo.com", None, "foo.com", "competitor"),
        (GROUNDED, "How to foo", "foo.com", "foo.com", "competitor"),
        (GROUNDED, "bücher.de", None, "xn--bcher-kva.de", "other"),
        (GROUNDED, "ann.github.io", None, "ann.github.io", "other"),
        (GROUNDED, "github.io", None, "github.io", "other"),
        (GROUNDED, "Acme is great", None, None, "other"),
        (GROUNDED, "Node.js", None, None, "other"),
        (GROUNDED, "acme.com/pricing", None, None, "other"),
        (GROUNDED, "acme.com(x", None, None, "other"),
        (GROUNDED, None, None, None, "other"),
        ("https://www.baidu.com/link?url=x", "官网", None, None, "other"),
        ("https://cloud.google.com/x", "wikipedia.org", None, "google.com", "other"),
    ],
)
def test_a_redirect_that_hides_its_target_is_whose_its_title_says(
    url: str, title: str | None, site_name: str | None, domain: str | None, owner: str
) -> None:
    (cited,) = parse_answer(
        "text",
        question=None,
        names=NAMES,
        own_domains=["acme.com"],
        competitor_domains=["foo.com"],
        citation_urls=[(url, title, site_name)],
    ).citations
    assert (cited.domain, cited.owner) == (domain, owner)
    assert cited.normalized_url == url.replace("www.", "")


def test_a_hidden_target_is_not_googles_own() -> None:
    answer = parse_answer(
        "text",
        question=None,
        names=NAMES,
        own_domains=["google.com"],
        competitor_domains=[],
        citation_urls=[(GROUNDED, "A page", None)],
    )
    assert answer.citations[0].owner == "other"


def test_links_in_the_text_count_where_no_structure_gives_any() -> None:
    answer = parse("见[官网](https://acme.com/a)、https://foo.com/b。<think>https://c.com</think>")
    assert [(each.ordinal, each.host) for each in answer.citations] == [
        (1, "acme.com"),
        (2, "foo.com"),
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty_answer"),
        (" \n", "empty_answer"),
        ("<!DOCTYPE html><title>Just a moment</title> Acme https://x.com", "html_page"),
        ("抱歉，系统繁忙，请稍后再试。", "refusal_or_error"),
        ("I'm sorry, I can't help with that.", "refusal_or_error"),
        ("I can't help but recommend Foo if you travel a lot.", None),
        ("As an AI I have no taste buds, but reviewers prefer Foo.", None),
        ("人机验证服务推荐极验和腾讯云。", None),
        ("\ufffd\ufffd Acme \ufffd", "garbled_text"),
        ("没有关于Acme的信息。Acme 在上海，成立于2010年。", "absence_conflict"),
        ("没有关于Acme的信息。", None),
        ("Sorry I'm late: Acme is fine", None),
        ("Foo is fine", None),
    ],
)
def test_doubtful_answers_are_badcases(text: str, reason: str | None) -> None:
    answer = parse(text)
    assert answer.badcase_reason == reason
    assert (answer.confidence < 0.7) == (reason is not None)


def test_a_page_in_place_of_an_answer_cites_nothing() -> None:
    assert parse("<html><a href='https://x.com'>x</a>").citations == ()


def test_unusable_citations_are_a_badcase() -> None:
    assert parse("text", ("collections://1", None, None)).badcase_reason == "citations_unusable"


def test_a_brand_known_only_by_a_common_word_is_a_badcase() -> None:
    answer = parse_answer(
        "Go there",
        question=None,
        names=[BrandName("go", "brand", "Go")],
        own_domains=[],
        competitor_domains=[],
    )
    assert (answer.brand_count, answer.badcase_reason) == (1, "ambiguous_name")


@given(st.text(max_size=200), st.text(max_size=50), st.lists(st.text(max_size=40), max_size=3))
def test_any_answer_is_parsed(text: str, question: str, urls: list[str]) -> None:
    answer = parse(text, *[(url, None, None) for url in urls], question=question)
    assert 0 <= answer.confidence <= 1
    assert answer.brand_mentioned == (answer.brand_count > 0)


ENDLESS = [
    "a",
    "_",
    "`",
    "[",
    "](",
    "<a ",
    "a.",
    "a@",
    "没有找到",
    "> ",
    "1. ",
    "\n",
    "http://",
    "```\n",
    "Acme ",
    "Acme 不",
    "not Acme ",
    "you never heard of Acme ",
    "没有找到Acme",
    "结果中没有Acme",
    "no data is ",
    "the search ",
    "Acme™",
    "™",
    "**",
    "A*",
    "A**c",
    "Ac\n> ",
    "&amp;",
    "\\",
    "<b>",
    "<code>",
    "<!--",
    "①",
    "1. 2. ",
    "/a",
    "/a/",
    "a+",
    "来源\n",
    "Sources:\n- x\n",
    "[1] x ",
    "[^1]: x\n",
    'you asked "',
    "你问“",
    "Q: ",
    "Acme 和 ",
    "一是",
    "360",
    "there is no company called ",
]


@pytest.mark.parametrize("unit", ENDLESS)
def test_time_is_linear_in_the_answer(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit)) + "\n\nAcme https://acme.com"
        started = time.process_time()
        parse(text, question="Acme 和 Foo 哪个好？")
        return time.process_time() - started

    seconds(1_000)
    assert seconds(100_000) < 2.0, unit
