"""Links a text shows, in order (3-results §3.3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.parsing.links import Link, extract_links

ROWS = [
    ("[site](https://a.com/x)", [("https://a.com/x", "site")]),
    ("[wiki](https://a.com/x_(y))", [("https://a.com/x_(y)", "wiki")]),
    ("[1](https://a.com/)", [("https://a.com/", None)]),
    ("<https://a.com/x>", [("https://a.com/x", None)]),
    ("![logo](https://a.com/i.png)", []),
    ("see https://a.com/x.", [("https://a.com/x", None)]),
    ("(https://a.com/x)", [("https://a.com/x", None)]),
    ("(https://a.com/x_(y))", [("https://a.com/x_(y)", None)]),
    ("（https://a.com/x）", [("https://a.com/x", None)]),
    ("【https://a.com/x】", [("https://a.com/x", None)]),
    ("《https://a.com/x》", [("https://a.com/x", None)]),
    ("见https://a.com/x。然后", [("https://a.com/x", None)]),
    ("https://a.com/x，https://b.com/y；", [("https://a.com/x", None), ("https://b.com/y", None)]),
    ("https://a.com/x、https://b.com", [("https://a.com/x", None), ("https://b.com", None)]),
    ("访问https://a.com/docs查看", [("https://a.com/docs", None)]),
    ("访问https://a.com查看", [("https://a.com", None)]),
    ("https://zh.a.org/wiki/人工智能。", [("https://zh.a.org/wiki/人工智能", None)]),
    ("**https://a.com/x**", [("https://a.com/x", None)]),
    ("| https://a.com/x|b |", [("https://a.com/x", None)]),
    ("www.a.com/x and a.com", [("www.a.com/x", None)]),
    ('<a href="https://a.com/x">x</a>', [("https://a.com/x", None)]),
    ("`https://a.com/x`", []),
    ("```\nhttps://a.com/x\n```", []),
    ("text [a][1]\n\n[1]: https://a.com/x", [("https://a.com/x", None)]),
    ("text[^1]\n\n[^1]: https://a.com/x", [("https://a.com/x", None)]),
    ("text\n\n[^1]: Source, https://a.com/x", [("https://a.com/x", None)]),
    ('text\n\n[1]: https://a.com/x "T"', [("https://a.com/x", "T")]),
    ("[1] https://b.com/x", [("https://b.com/x", None)]),
    ("- a\n  - [one](https://a.com/x)", [("https://a.com/x", "one")]),
    ("> [one](https://a.com/x)", [("https://a.com/x", "one")]),
    (
        "https://b.com [x y](https://a.com) https://b.com",
        [("https://b.com", None), ("https://a.com", "x y"), ("https://b.com", None)],
    ),
    ("https://a.com/x [one](https://a.com/x)", [("https://a.com/x", None), ("https://a.com/x", "one")]),
    ("[one](https://a.com/x) [two](https://a.com/x)", [("https://a.com/x", "one"), ("https://a.com/x", "two")]),
    ("[https://a.com/x](https://a.com/x)", [("https://a.com/x", None)]),
    ("[one][1], [two][1]\n\n[1]: https://a.com/x", [("https://a.com/x", "one"), ("https://a.com/x", "two")]),
    ("[mail](mailto:a@a.com) [file](sandbox:/mnt/a.csv) [top](#top) [docs](/docs)", []),
    ("[one](a.com/x) [two](//b.com/x)", [("a.com/x", "one"), ("//b.com/x", "two")]),
    ("no links", []),
    ("", []),
]


@pytest.mark.parametrize(("text", "expected"), ROWS)
def test_links_in_order(text: str, expected: list[tuple[str, str | None]]) -> None:
    assert extract_links(text) == tuple(Link(url, title) for url, title in expected)


@given(st.text(alphabet="[]()<>`*_!#\\\n hps:/.aw人。1-", max_size=120))
def test_any_text_is_accepted(text: str) -> None:
    extract_links(text)
