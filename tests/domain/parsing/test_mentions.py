"""Mention rules, one row each (3-results §3.3)."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.parsing import folding
from domain.parsing.folding import fold, fold_with_offsets
from domain.parsing.mentions import BrandName, Mention, find_mentions

NAMES = (
    BrandName("acme", "brand", "Acme", ("爱客美", "Acme Cloud")),
    BrandName("openai", "competitor", "OpenAI", ("Open AI",)),
    BrandName("go", "competitor", "Go"),
    BrandName("qwen", "competitor", "Qwen", ("通义千问",)),
    BrandName("gpt4", "competitor", "GPT-4"),
    BrandName("mi", "competitor", "小米", ("小米 SU7",)),
    BrandName("booking", "competitor", "Booking.com"),
    BrandName("cpp", "competitor", "C++"),
    BrandName("cafe", "competitor", "Café Noir"),
    BrandName("studio", "competitor", "Acme Studio", ("爱客美工坊",)),
    BrandName("kaisha", "competitor", "会社"),
)


def counts(text: str, question: str | None = None) -> dict[str, int]:
    found = find_mentions(text, NAMES, question=question)
    return {mention.key: mention.count for mention in found}


def only(key: str, text: str) -> Mention:
    return next(each for each in find_mentions(text, NAMES) if each.key == key)


BOUNDARIES = [
    ("用OpenAI的模型", {"openai": 1}),
    ("good", {}),
    ("Gopher", {}),
    ("cargo", {}),
    ("Go语言", {"go": 1}),
    ("学Go，用Go。", {"go": 2}),
    ("go to the shop", {}),
    ("GO is a language", {"go": 1}),
    ("Go-to-market", {}),
    ("let it Go.", {"go": 1}),
    ("Go.mod", {}),
    ("Go's tools", {"go": 1}),
    ("Acme", {"acme": 1}),
    ("ACME, acme; aCmE", {"acme": 3}),
    ("Acmee", {}),
    ("macme", {}),
    ("xAcme", {}),
    ("Acme's best", {"acme": 1}),
    ("Acme’s best", {"acme": 1}),
    ("two Acmes", {"acme": 1}),
    ("two acmes", {}),
    ("Acme-based, pre-Acme", {"acme": 2}),
    ("(Acme)[Acme]“Acme”", {"acme": 3}),
    ("_Acme_ and __Acme__", {"acme": 2}),
    ("**Acme**和*Acme*", {"acme": 2}),
    ("acme_config", {}),
    ("my_acme", {}),
    ("#Acme @Acme", {"acme": 2}),
    ("Acme/OpenAI", {"acme": 1, "openai": 1}),
    ("Qwen3 和 Qwen2.5-72B", {"qwen": 2}),
    ("Qwen2vl", {}),
    ("GPT-4 is", {"gpt4": 1}),
    ("GPT-4.5 is", {}),
    ("GPT-4o is", {}),
    ("GPT-4. Next", {"gpt4": 1}),
    ("C++ 很快", {"cpp": 1}),
    ("Акме и Acme", {"acme": 1}),
    ("яAcme", {}),
    ("AcmeはいいAcme입니다", {"acme": 2}),
    ("爱客美好用", {"acme": 1}),
    ("我爱爱客美爱客美", {"acme": 2}),
]

FOLDING = [
    ("Ａｃｍｅ", {"acme": 1}),
    ("ＯｐｅｎＡＩ的", {"openai": 1}),
    ("Ac\u200bme", {"acme": 1}),
    ("A\u00adc\ufeffm\u2060e", {"acme": 1}),
    ("Go\u200bod", {}),
    ("Open AI", {"openai": 1}),
    ("Open\u00a0AI", {"openai": 1}),
    ("Open\nAI", {"openai": 1}),
    ("Open\n\nAI", {}),
    ("Cafe\u0301 Noir", {"cafe": 1}),
    ("CAFÉ NOIR", {"cafe": 1}),
    ("Cafe Noir", {}),
    ("小米SU7", {"mi": 1}),
    ("小米 su7 与小米", {"mi": 2}),
    ("Ⓐcme", {"acme": 1}),
    ("Acme™", {"acme": 1}),
    ("™Acme", {"acme": 1}),
    ("Acme™\ufe0f", {"acme": 1}),
    ("Acme℠", {"acme": 1}),
    ("Acme© Acme® Acme®\ufe0f", {"acme": 3}),
    ("AcmeᵀᴹとAcme🅪", {"acme": 2}),
    ("用Acme™的", {"acme": 1}),
    ("Acme™'s, Acme™ is, Acme™®", {"acme": 3}),
    ("Acme™s and Acme™is", {"acme": 2}),
    ("Foo™Acme", {"acme": 1}),
    ("Acme™ Studio", {"studio": 1}),
    ("Acme™Cloud", {"acme": 1}),
    ("OpenAI™与Open™AI®", {"openai": 2}),
    ("爱客美™", {"acme": 1}),
    ("Go™", {"go": 1}),
    ("Macme™", {}),
    ("Acmetm", {}),
    ("", {}),
    ("\u200b", {}),
]

LONGEST = [
    ("Acme Cloud", {"acme": 1}),
    ("Acme Clouds over", {"acme": 1}),
    ("Acme Cloudy", {"acme": 1}),
    ("小米 SU7 Ultra", {"mi": 1}),
    ("通义千问（Qwen）", {"qwen": 2}),
    ("Acme Studio", {"studio": 1}),
    ("Acme Studios2go", {"acme": 1}),
    ("Acme Studio by Acme", {"studio": 1, "acme": 1}),
    ("爱客美工坊", {"studio": 1}),
    ("会社", {"kaisha": 1}),
    ("㍿", {}),
]

NOT_OWN_WORDS = [
    ("https://acme.com/Acme", {}),
    ("见https://x.org/Acme。Acme好", {"acme": 1}),
    ("www.acme.com", {}),
    ("acme.com", {}),
    ("访问acme.com/pricing", {}),
    ("acme.notatld", {"acme": 1}),
    ("Acme.The best", {"acme": 1}),
    ("Booking.com is big", {"booking": 1}),
    ("booking.com/hotel", {}),
    ("https://booking.com", {}),
    ("info@acme.com", {}),
    ("联系acme@example.com", {}),
    ("`Acme`", {}),
    ("``a`Acme``", {}),
    ("`open Acme", {"acme": 1}),
    ("`a\n\nAcme`", {"acme": 1}),
    ("```\nAcme\n```\nAcme", {"acme": 1}),
    ("~~~py\nAcme\n~~~", {}),
    ("```\nAcme", {}),
    ("````\n```\nAcme\n````\nAcme", {"acme": 1}),
    ("[Acme](https://acme.com/acme)", {"acme": 1}),
    ("[site](/acme)", {}),
    ('[site](x "Acme")', {}),
    ("![Acme logo](x.png)", {}),
    ("text [1]\n\n[acme]: https://acme.com", {}),
    ("[^1]: Acme blog, https://acme.com", {}),
    ('<a href="x" title="Acme">Acme</a>', {"acme": 1}),
    ("<think>Acme?</think>OpenAI", {"openai": 1}),
    ("<think>Acme", {}),
]


@pytest.mark.parametrize(("text", "expected"), [*BOUNDARIES, *FOLDING, *LONGEST, *NOT_OWN_WORDS])
def test_counts_follow_the_rules(text: str, expected: dict[str, int]) -> None:
    assert counts(text) == expected


ECHOES = [
    (
        "Acme和OpenAI哪个更适合中小企业使用？",
        "Acme和OpenAI哪个更适合中小企业使用？\n我选Acme",
        {"acme": 1},
    ),
    ("Is Acme better than OpenAI?", "Is ACME better than\nOpenAI? Acme is.", {"acme": 1}),
    ("Acme好吗", "你问“Acme好吗”。Acme好。", {"acme": 1}),
    ("Acme好吗", "Acme好吗？好。", {}),
    ("Acme", "**Acme**\nAcme 很好", {"acme": 2}),
    ("小米手机", "我推荐小米手机，很好", {"mi": 1}),
    ("", "Acme", {"acme": 1}),
    ("？？", "Acme？？", {"acme": 1}),
]


@pytest.mark.parametrize(("question", "text", "expected"), ECHOES)
def test_the_repeated_question_mentions_nothing(question: str, text: str, expected: dict[str, int]) -> None:
    assert counts(text, question) == expected


ABSENT = [
    "I couldn't find any information about Acme.",
    "I could not find reliable public details on **Acme**.",
    "There is no information available about “Acme”.",
    "Unfortunately, I don’t have specific information about a company called Acme.",
    "I'm not familiar with Acme.",
    "I am not aware of any brand named Acme.",
    "I was unable to find Acme in the search results.",
    "Acme is not mentioned in the sources.",
    "Acme does not appear in the search results.",
    "No results found for Acme.",
    "I have never heard of Acme.",
    "Information about Acme is not available.",
    "Acme: no data",
    "没有关于Acme的信息。",
    "没有找到关于 Acme 的相关信息",
    "未找到Acme的信息",
    "未找到 Acme",
    "目前暂无Acme的公开资料。",
    "抱歉，我无法找到有关“Acme”的详细信息。",
    "我没有听说过Acme这个品牌。",
    "查不到Acme",
    "搜索结果中未提及Acme。",
    "Acme的信息暂未找到。",
    "Acme 暂无公开信息",
    "我对Acme不太了解。",
    "我不了解Acme。",
    "不存在名为Acme的公司",
    "没有找到关于OpenAI和Acme的资料",
    "I couldn't find anything about Acme.",
    "I could not find anything specific about a company named Acme",
    "I found nothing about Acme.",
    "Nothing was found about Acme.",
    "Nothing came up for Acme, sorry.",
    "There is nothing online about Acme.",
    "There isn't any information available about Acme.",
    "There's not any public data on Acme.",
    "I don't know anything about Acme.",
    "I don't know about Acme.",
    "I do not know of any company called Acme.",
    "I haven't heard of Acme.",
    "I'm sorry that I am not familiar with Acme.",
    "None of the sources mention Acme.",
    "None of the search results I found mentions “Acme”.",
    "The sources don't mention Acme.",
    "The search results do not include Acme.",
    "The results don't mention anything about Acme.",
    "The provided context doesn't mention Acme at all.",
    "Acme isn't something I'm aware of.",
    "Acme is not a brand I know.",
    "Acme was not found in any of the provided documents.",
    "Acme does not exist.",
    "Acme™ does not appear in my training data.",
    "I cannot confirm whether Acme exists.",
    "I can't find Acme.",
    "Acme can't be found online.",
    "I can't verify the existence of Acme.",
    "No results were found in the search for Acme.",
    "查不到Acme这家公司",
    "查不到 Acme 这家公司。",
    "找不到Acme公司！",
    "Acme并未出现在搜索结果中",
    "Acme没有出现在检索结果里。",
    "Acme没有在搜索结果中出现",
    "Acme不在提供的资料中。",
    "检索结果里没有Acme",
    "搜索结果中并没有Acme这家公司。",
    "资料中没有出现Acme",
    "资料中未提及Acme的信息。",
    "无法确认Acme是否存在",
    "无法核实 Acme 的真实性。",
    "我没听过Acme。",
    "我不太了解Acme",
    "本人没听说过Acme。",
    "根据您提供的资料没有找到Acme的信息。",
]


@pytest.mark.parametrize("text", ABSENT)
def test_a_denied_name_is_absent_and_not_counted(text: str) -> None:
    acme = only("acme", text)
    assert (acme.count, len(acme.absent_offsets), acme.position) == (0, 1, None)


PRESENT = [
    "Acme is not bad.",
    "I do not recommend Acme.",
    "You can't find a better tool than Acme.",
    "I could not find a better tool than Acme.",
    "If you cannot find Acme in the store, ask.",
    "There is no information about Acme's pricing.",
    "Acme does not appear to be slow.",
    "Acme is not listed on NASDAQ.",
    "There are no hidden fees with Acme.",
    "Acme 没有免费版。",
    "没有Acme好用",
    "没有找到关于Acme定价的信息",
    "Acme没有公开价格",
    "如果你不了解Acme，可以先试用。",
    "Acme不会泄露信息。",
    "no information about OpenAI. Acme is known.",
    "If you have not heard of Acme, try it.",
    "If you haven't heard of Acme, try it.",
    "For those who are not familiar with Acme: it is great.",
    "Many people have never heard of Acme.",
    "If not familiar with Acme, start there.",
    "你可能没听说过Acme，但它很好用",
    "您也许还没有听说过Acme，它很好用",
    "很多人不知道Acme。",
    "如果你对Acme不了解，可以先试用。",
    "如果您找不到Acme，请看官网。",
    "Acme is not found in stores.",
    "I could not find Acme in stores.",
    "Acme does not exist in isolation.",
    "Acme does not come up short.",
    "Acme is not mentioned as often as before.",
    "There are no mentions of downtime for Acme.",
    "I couldn't find anything wrong with Acme.",
    "There is nothing about Acme that I dislike.",
    "Nothing about Acme is cheap.",
    "I don't know if Acme is cheaper.",
    "I didn't know about Acme until last year.",
    "The data does not show Acme losing share.",
    "I don't know Acme's prices.",
    "The results do not show Acme to be slow.",
    "None of the sources mention Acme's pricing.",
    "Acme isn't something I'd skip.",
    "I cannot confirm whether Acme ships abroad.",
    "查不到Acme这家公司的财报",
    "检索结果里没有Acme好用的",
    "Acme不在搜索结果中投放广告。",
    "无法确认Acme是否支持导出",
]


@pytest.mark.parametrize("text", PRESENT)
def test_other_negations_are_mentions(text: str) -> None:
    assert only("acme", text).count == 1


def test_a_negation_within_a_name_denies_nothing() -> None:
    names = [BrandName("notion", "brand", "Notion")]
    [named] = find_mentions("Notion information about itself is public.", names)
    [denied] = find_mentions("I have no information about Notion.", names)
    assert (named.count, named.absent_offsets) == (1, ())
    assert (denied.count, len(denied.absent_offsets)) == (0, 1)


def test_guesses_about_a_denied_name_do_not_count() -> None:
    acme = only("acme", "没有找到Acme的信息。如果Acme是新品牌，请提供官网。Acme在北京。")
    assert (acme.count, len(acme.absent_offsets)) == (1, 2)


POSITIONS = [
    ("OpenAI, then Acme", {"openai": 1, "acme": 2}),
    ("1. OpenAI\n2. Acme\n3. Foo", {"openai": 1, "acme": 2}),
    ("1. Foo\n2. Bar\n3. **Acme**：好", {"acme": 3}),
    ("Acme 怎么样：\n1. Foo\n2. OpenAI\n3. Acme", {"acme": 3, "openai": 2}),
    ("### 1. Qwen\ntext\n### 2. Acme\ntext OpenAI", {"qwen": 1, "acme": 2, "openai": 3}),
    ("1、小米\n2、爱客美", {"mi": 1, "acme": 2}),
    ("① Foo\n② Acme", {"acme": 2}),
    ("一、Foo\n二、Acme", {"acme": 2}),
    ("第一名：Foo\n第二名：Acme", {"acme": 2}),
    ("（1）Foo\n（2）Acme", {"acme": 2}),
    ("1️⃣ Foo\n2️⃣ Acme", {"acme": 2}),
    ("| 1 | Foo |\n| 2 | Acme |", {"acme": 2}),
    ("1. Foo\n1. Bar\n1. Acme", {"acme": 3}),
    ("1. OpenAI beats Acme\n2. Acme", {"openai": 1, "acme": 2}),
    ("1. Foo\n   1. x\n   2. y\n2. Acme", {"acme": 2}),
    ("1. wait\n2. go\n\n1. Foo\n2. Acme\n3. Qwen", {"acme": 2, "qwen": 3}),
    ("没有关于OpenAI的信息。Acme好", {"openai": None, "acme": 1}),
]


@pytest.mark.parametrize(("text", "expected"), POSITIONS)
def test_position_is_the_rank_in_the_list_or_by_first_mention(text: str, expected: dict[str, int | None]) -> None:
    found = find_mentions(text, NAMES)
    assert {mention.key: mention.position for mention in found} == expected


def test_offsets_point_into_the_original_text() -> None:
    text = "…ｈｉ，Ａｃ\u200bｍｅ！和爱客美"
    acme = only("acme", text)
    assert [text[start:end] for start, end in acme.offsets] == ["Ａｃ\u200bｍｅ", "爱客美"]
    assert acme.first_offset == acme.offsets[0][0]


def test_a_shared_spelling_is_the_brands() -> None:
    names = [BrandName("b", "competitor", "Acme"), BrandName("a", "brand", "ACME")]
    assert [mention.key for mention in find_mentions("Acme", names)] == ["a"]


def test_blank_and_symbol_names_match_nothing() -> None:
    names = [BrandName("a", "brand", " ", ("", "!", "\u200b"))]
    assert find_mentions("! wow !", names) == ()


SPELLINGS = [spelling for name in NAMES for spelling in (name.name, *name.aliases)]
PIECES = st.one_of(st.text(max_size=6), st.sampled_from([*SPELLINGS, "`", "\n", "没有找到", " "]))


@given(st.lists(PIECES, max_size=12).map("".join))
def test_every_offset_slices_out_a_spelling(text: str) -> None:
    spellings = {fold(each).replace(" ", "") for each in SPELLINGS}
    for mention in find_mentions(text, NAMES, question=text[:5]):
        for start, end in (*mention.offsets, *mention.absent_offsets):
            shown = "".join(fold(text[start:end]).split())
            assert shown in spellings


@given(st.text(max_size=300))
def test_text_without_a_spelling_has_no_mention(text: str) -> None:
    folded = "".join(fold(text).split())
    if not any("".join(fold(each).split()) in folded for each in SPELLINGS):
        assert find_mentions(text, NAMES) == ()


@given(st.lists(PIECES, max_size=12).map("".join))
def test_spans_do_not_overlap(text: str) -> None:
    found = find_mentions(text, NAMES)
    spans = sorted(span for each in found for span in (*each.offsets, *each.absent_offsets))
    assert all(left[1] <= right[0] for left, right in pairwise(spans))


def test_what_is_folded_at_one_stroke_is_what_is_folded_one_by_one() -> None:
    simple = [chr(point) for point in range(0x110000) if folding._SIMPLE_RUN.fullmatch(chr(point))]
    assert "\u4e00" in simple
    assert [folding._fold_simple(each) for each in simple] == [folding._fold_cluster(each) for each in simple]


@given(st.text(max_size=60))
def test_folding_a_whole_text_is_folding_its_pieces_with_their_offsets(text: str) -> None:
    whole = fold_with_offsets(text)
    assert len(whole.starts) == len(whole.ends) == len(whole.folded)
    assert all(0 <= start < end <= len(text) for start, end in zip(whole.starts, whole.ends, strict=True))
    assert all(left <= right for left, right in pairwise(whole.starts))
