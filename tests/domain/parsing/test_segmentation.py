"""Where words, not a name, account for Chinese characters (3-results §3.3); the labels are in mention_set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.parsing.mentions import BrandName, find_mentions
from domain.parsing.segmentation import arises_from_words
from domain.parsing.words import LONGEST, word_costs


def test_the_table_holds_words_and_the_rare_cost_more() -> None:
    costs = word_costs()
    assert len(costs) > 40_000
    assert all(1 <= len(word) <= LONGEST and 0 < cost < 16 for word, cost in costs.items())
    assert costs["的"] < costs["使用"] < costs["邦交"]


@pytest.mark.parametrize("text", ["完美的", "最完美的体验", "不完美的", "完美的。美"])
def test_a_name_at_the_seam_of_words_is_none(text: str) -> None:
    assert arises_from_words(text, text.index("美的"), text.index("美的") + 2, 0)


def test_an_earlier_name_takes_no_part_in_a_word() -> None:
    names = [BrandName("a", "brand", "完美"), BrandName("b", "competitor", "美的")]
    [only] = find_mentions("完美的", names)
    assert (only.key, only.count) == ("a", 1)
    assert arises_from_words("海完美的", 2, 4, 0)
    assert not arises_from_words("海完美的", 2, 4, 2)


def test_a_name_that_stands_free_is_never_weighed() -> None:
    assert not arises_from_words("(美的)", 1, 3, 0)
    assert not arises_from_words("完 美的 ", 2, 4, 0)


@given(
    st.text(alphabet="完美的空调和选最京东方便今天猫咪,a ", max_size=20),
    st.sampled_from(["美的", "京东", "天猫", "美"]),
)
def test_any_surroundings_are_weighed(around: str, name: str) -> None:
    text = around[: len(around) // 2] + name + around[len(around) // 2 :]
    at = len(around) // 2
    assert arises_from_words(text, at, at + len(name), 0) in (True, False)
    assert not arises_from_words(f"，{name}，", 1, 1 + len(name), 0)
