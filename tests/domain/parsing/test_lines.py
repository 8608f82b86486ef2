"""Looking at the beginnings of lines finds what a search finds (3-results §3.3)."""

import re

from hypothesis import given
from hypothesis import strategies as st

from domain.parsing.lines import line_matches

ITEM = re.compile(r"^[ \t>]*(?:\d+[.)]|#+ [^\n]*$)", re.MULTILINE)


@given(st.text(alphabet="1.) #a>\n\r\t\u2028", max_size=60))
def test_lines_are_matched_where_a_search_matches_them(text: str) -> None:
    assert [each.span() for each in line_matches(ITEM, text)] == [each.span() for each in ITEM.finditer(text)]
