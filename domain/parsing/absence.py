"""Sentences that say nothing is known of a name (3-results §3.3).

They are matched on a template: the sentence in folded text with each name written as one
placeholder character, and with quotes and emphasis left out.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

Span = tuple[int, int]

_NAME: Final = "\ue000"
_DECORATION: Final = re.compile(r'[*_"“”「」『』《》`]+')
_SENTENCE_END: Final = re.compile(r"[!?;。;\n]|\.(?=\s|$)")

# One or several names in a row: "Acme, Foo and Bar", "Acme、Foo和Bar".
_NAMES: Final = rf"{_NAME}(?:(?:[\s,、/&和与及或]|and|or|以及|或者){{1,8}}{_NAME})*+"

_INFO: Final = (
    r"(?:information|info|data|details?|results?|mentions?|records?|evidence|references?|sources?"
    r"|knowledge|entries|matches|articles|reports|coverage|documentation)"
)
_ADJECTIVES: Final = (
    r"(?:(?:any|much|a|an|the|specific|reliable|public|publicly|available|relevant|detailed"
    r"|verified|further|official|credible|current|recent|direct|explicit|concrete|clear|such"
    r"|definitive|substantial|single|trustworthy|up-to-date|real|meaningful|search) ){0,5}"
)
_ABOUT: Final = r"(?:about|on|of|for|regarding|concerning|related to|relating to|mentioning|with)"
_KIND: Final = (
    r"(?:(?:the|a|an|this|that|any|company|brand|product|tool|service|software|platform|app"
    r"|business|organization|entity|called|named|known as|as|like|specific|exact|term|name) ){0,5}"
)
# "no information about Acme's pricing" leaves Acme itself known.
_WHOLE: Final = r"(?!'s? [a-z])(?![a-z])"
_UNLESS_READER: Final = r"(?<!you )(?<!users )(?<!customers )(?<!they )"
_NOT: Final = r"(?:not|n't)"
_CANNOT: Final = (
    rf"(?:(?:could|can|did|do|does|have|has|was|were|am|are|is) ?{_NOT}|cannot|unable to"
    r"|failed to|fail to|haven't|i'm not)"
)
_FIND: Final = (
    r"(?:find|found|locate|located|identify|identified|verify|retrieve|recognize|recogni[sz]e"
    r"|come across|turn up|return|returned|show|surface|see)"
)
_ENGLISH: Final = (
    rf"\b(?:no|without|lack of|insufficient) {_ADJECTIVES}{_INFO}(?: \w+){{0,3}}? {_ABOUT} "
    rf"{_KIND}{_NAMES}{_WHOLE}",
    rf"{_UNLESS_READER}\b{_CANNOT} (?:able to |currently |directly )?"
    rf"(?:{_FIND}|have|know|contain|provide|access|possess) {_ADJECTIVES}"
    rf"{_INFO}(?: \w+){{0,3}}? {_ABOUT} {_KIND}{_NAMES}{_WHOLE}",
    rf"{_UNLESS_READER}\b{_CANNOT} (?:able to )?{_FIND} {_ADJECTIVES}{_KIND}{_NAMES}{_WHOLE}",
    rf"\b(?:not|n't|un) ?(?:aware of|familiar with|heard of|acquainted with) {_ADJECTIVES}"
    rf"{_KIND}{_NAMES}{_WHOLE}",
    rf"\b(?:never|not) heard of {_KIND}{_NAMES}{_WHOLE}",
    rf"\bno such {_KIND}{_NAMES}{_WHOLE}",
    rf"{_NAMES} (?:(?:is|are|was|were|does|do|did|has|have) ?{_NOT}|isn't|doesn't) "
    r"(?:been )?(?:currently |explicitly |specifically |directly )?"
    r"(?:mentioned|found|appear(?! to)|appear to exist|exist\b|show up|come up|known to me"
    r"|(?:listed|included|covered|present|featured) (?:in|among) (?:the|my|these|any) "
    r"(?:search |provided |available )?(?:results|sources|data|documents|context|information))",
    rf"{_INFO} {_ABOUT} {_KIND}{_NAMES} (?:(?:is|was|are|were|could|can) ?{_NOT}|cannot|is un)"
    r" ?(?:be )?(?:currently |publicly |readily )?(?:available|found|located|known)",
    rf"{_NAMES} ?[:|-] ?(?:no {_ADJECTIVES}{_INFO}|not found|unknown\b|n/a\b)",
)

_FIND_ZH: Final = (
    r"(?:找到|查到|查找到|查询到|搜索到|搜到|检索到|获取到?|获得|发现|收录|看到|提到|提及|涉及|包含"
    r"|听说过?|见过|了解到?|得到|查找|查询)"
)
_INFO_ZH: Final = r"(?:信息|资料|内容|结果|数据|记录|报道|介绍|消息|情报|线索|证据|词条|文献|品牌|公司|产品|企业)"
_ADJECTIVES_ZH: Final = (
    r"(?:的|任何|相关|有关|公开|详细|具体|明确|可靠|直接|确切|权威|官方|足够|更多|可信|有效|准确|可查"
    r"|可用|最新|太多|过多|搜索|检索|背景|基本|公司|产品|品牌|企业|和|与|及|或|、|\s)"
)
_NEGATION_ZH: Final = r"(?:没有?|没能|未能?|无法|并未|尚未|暂[未无]|并无|查无|缺[乏少]|不能|均未|都没有?)"
_ABOUT_ZH: Final = r"(?:关于|有关|与|和|对于|针对|对)"
_KIND_ZH: Final = r"(?:名为|名叫|叫做?|称为|[一这][个家款]|该|任何|的|公司|品牌|产品|企业|软件|\s|,)"
_NOT_READER_ZH: Final = r"(?<![你您户人])"
_TAIL_ZH: Final = rf"{_ADJECTIVES_ZH}{{0,6}}{_INFO_ZH}"
_CHINESE: Final = (
    rf"{_NEGATION_ZH}(?:能|有|在.{{1,20}}?[中里内上])?{_FIND_ZH}{_ADJECTIVES_ZH}{{0,6}}"
    rf"(?:{_ABOUT_ZH}\s?)?{_KIND_ZH}{{0,6}}{_NAMES}\s?"
    rf"(?={_TAIL_ZH}|这|$|[,。:()\s]|相关|的存在)",
    rf"(?:{_NEGATION_ZH}|找不到|查不到|搜不到|查询不到|检索不到)"
    rf"(?:{_FIND_ZH}|提供|确认|掌握|存储|拥有|有)?{_ADJECTIVES_ZH}{{0,6}}(?:{_ABOUT_ZH}\s?)?"
    rf"{_KIND_ZH}{{0,6}}{_NAMES}\s?{_TAIL_ZH}",
    rf"(?:找不到|查不到|搜不到|查询不到|检索不到|查无){_KIND_ZH}{{0,6}}{_NAMES}(?=[,。\s]|$)",
    rf"(?:{_NEGATION_ZH}|不存在){_ABOUT_ZH}\s?{_KIND_ZH}{{0,6}}{_NAMES}\s?{_TAIL_ZH}",
    rf"不存在{_KIND_ZH}{{0,6}}{_NAMES}(?=[,。\s]|$|这|的?{_INFO_ZH})",
    rf"{_NOT_READER_ZH}(?:不了解|不熟悉|不认识|不知道|不清楚|没听说过|没有听说过|未听说过)\s?"
    rf"{_KIND_ZH}{{0,6}}{_NAMES}(?=[,。\s]|$|这|是)",
    rf"对{_KIND_ZH}{{0,4}}\s?{_NAMES}\s?{_KIND_ZH}{{0,4}}"
    r"(?:不太?|并不|没有?什?么?)(?:了解|熟悉|印象|认识)",
    rf"{_ABOUT_ZH}?\s?{_NAMES}\s?(?:{_TAIL_ZH})?[,:|]?\s?"
    r"(?:目前|暂时|在.{1,20}?[中里内上]|我|我们|尚|并|均|还|也|\s){0,4}"
    rf"(?:{_NEGATION_ZH}|无|找不到|查不到)(?:被|能|有)?"
    rf"(?:{_ADJECTIVES_ZH}{{1,6}}{_INFO_ZH}(?:[,。\s|]|$)"
    rf"|{_FIND_ZH}(?:{_TAIL_ZH})?(?:[,。\s|]|$)|信息|资料|数据)",
    rf"{_NAMES}\s?(?:并不|不|没有|未)(?:存在|出现)?(?:在|于)?.{{0,8}}?(?:搜索|检索|引用|参考)"
    r"(?:结果|来源|资料)[中里内]",
)
_ABSENCE: Final = tuple(re.compile(pattern) for pattern in (*_ENGLISH, *_CHINESE))
_HINT: Final = re.compile(r"\bno\b|not|n't|\bun|never|fail|without|lack|insuff|n/a|[没未无不缺查]")
_HEDGE: Final = re.compile(
    r"\b(?:if|please|could you|can you|perhaps|maybe|might|may|whether|unless|possibly|assuming)\b"
    r"|如果|若|假如|倘若|可能|也许|或许|请|建议|能否|是否|无论|假设"
)


def absent_names(folded: str, keys: Sequence[str], spans: Sequence[Span]) -> set[int]:
    """Indexes of the name ``spans`` that a sentence denies knowledge of (3-results §3.3).

    ``spans`` are in order and do not overlap; ``keys`` say whose name each is. Once a name is
    denied, guesses about it ("if Acme is new, it may …") count as little as the denial.
    """
    sentences = tuple(_sentences(folded, spans))
    absent: set[int] = set()
    for text, first, last in sentences:
        absent.update(_denied(_template(folded, text, spans[first:last]), first))
    denied = {keys[i] for i in absent}
    for text, first, last in sentences if denied else ():
        if _HEDGE.search(folded, *text):
            absent.update(i for i in range(first, last) if keys[i] in denied)
    return absent


def _sentences(folded: str, spans: Sequence[Span]) -> Iterator[tuple[Span, int, int]]:
    """Sentences that hold names, each with the range of its names in ``spans``."""
    start, first = 0, 0
    for end in _sentence_ends(folded):
        last = first
        while last < len(spans) and spans[last][0] < end:
            last += 1
        if last > first:
            yield (start, end), first, last
        start, first = end, last


def _sentence_ends(folded: str) -> Iterator[int]:
    for match in _SENTENCE_END.finditer(folded):
        yield match.end()
    yield len(folded)


def _template(folded: str, sentence: Span, names: Sequence[Span]) -> str:
    parts: list[str] = []
    at = sentence[0]
    for start, end in names:
        parts.append(folded[at:start].replace(_NAME, " "))
        parts.append(_NAME)
        at = end
    parts.append(folded[at : sentence[1]].replace(_NAME, " "))
    words = _DECORATION.sub("", "".join(parts).replace("\u2019", "'"))
    return words.replace(f"'{_NAME}'", _NAME)


def _denied(template: str, first: int) -> Iterator[int]:
    if not _HINT.search(template):
        return
    for pattern in _ABSENCE:
        for match in pattern.finditer(template):
            before = first + template.count(_NAME, 0, match.start())
            yield from range(before, before + match.group().count(_NAME))
