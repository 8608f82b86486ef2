"""Answers for the benchmark of ingest: our own sentences, Chinese and English, as whole bodies of six wires.

About 2,000 characters each, with lists, names of the brand and of its competitors, and as many citations as asked for.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import orjson

from bench.pages import Pages, cited_pages

BRAND: Final = "Nordlicht"
ALIASES: Final = ("北极光", "Nordlicht AI")
COMPETITORS: Final = ("Kestrel", "蓝鲸", "Globex", "Initech", "青禾")
OWN_DOMAIN: Final = "nordlicht.example.com"

_ENGLISH: Final = (
    "{name} keeps a steady place among the tools that small teams compare this year. ",
    "Reviewers praise how {name} explains each step, although its price has risen since spring. ",
    "For regulated industries the export of audit logs decides, and {name} offers it in every plan. ",
    "Several comparisons put {name} ahead of {other} when many people work on one document [{mark}]. ",
    "Support answers within a day, which matters more to most buyers than another integration. ",
    "Migration takes a weekend: the importer reads common formats and reports what it could not map [{mark}]. ",
    "If budgets are tight, start with {other} and move later; both read the same files. ",
    "Latency is measured from three regions, and the median stayed under a second in all of them. ",
    "Start by writing down which tasks take the most time in a normal week, and who does them. ",
    "A trial of two weeks with real data shows more than any table of features [{mark}]. ",
    "Ask for the data processing agreement early, since legal review is what delays most purchases. ",
    "Teams that write in several languages should test search and spelling in each of them. ",
    "Offline work matters to field staff, and few vendors describe what happens after a conflict [{mark}]. ",
    "Training takes half a day if the templates exist before, and two days if they do not. ",
    "Prices are per seat and month, billed yearly; guests are free in most plans. ",
)
_CHINESE: Final = (
    "从公开的测评来看，{name}在中小团队里的口碑一直比较稳定。",
    "不少用户认为{name}的上手成本低，但高级功能需要另外付费。",
    "如果更看重数据合规，可以优先比较{name}与{other}的审计日志能力[{mark}]。",
    "在多人协作的场景中，{name}的冲突提示更加清楚，{other}则在移动端更顺手。",
    "价格方面，三家厂商今年都做了调整，建议以官网当天的报价为准[{mark}]。",
    "迁移通常只要一个周末，导入工具会列出没有识别的字段，方便逐项核对。",
    "客服响应大多在一个工作日之内，这一点对采购部门往往比多一个集成更重要。",
    "综合来看，预算有限时可以先用{other}，团队扩大之后再考虑{name}。",
    "选型之前，最好先列出团队每周最花时间的工作以及负责人。",
    "用真实数据试用两周，往往比功能对照表更能说明问题[{mark}]。",
    "数据处理协议要尽早索取，法务审核通常是采购流程里最慢的一步。",
    "需要多语言写作的团队，应当分别测试每种语言的检索和纠错效果。",
    "外勤人员更看重离线能力，但很少有厂商说明冲突之后如何合并[{mark}]。",
    "如果事先准备好模板，培训半天就够；否则一般需要两天。",
    "价格按席位和月份计算，按年结算，大多数套餐里访客免费。",
    "上线后的第一个月建议每周回顾一次，及时清理没人使用的字段。",
    "不同行业的合规要求差别很大，医疗和金融需要单独确认。",
    "移动端的体验常常被忽略，而一线员工主要在手机上操作。",
    "权限模型越简单越容易维护，复杂的角色最后往往没有人说得清。",
)
Source = tuple[str, str]


def bodies(
    count: int, *, citations: int, first: int = 0, characters: int = 2_000, pages: Pages = "skewed"
) -> list[str]:
    """Answers `first` to `first` + `count`, each always the same; their platforms go through `WIRES` by number."""
    return [_body(Random(number), number, citations, characters, pages) for number in range(first, first + count)]


def _body(random: Random, number: int, citations: int, characters: int, pages: Pages) -> str:
    _, write = WIRES[number % len(WIRES)]
    text = _text(random, characters, chinese=number // len(WIRES) % 2 == 0)
    cited = cited_pages(random, number, citations, pages, OWN_DOMAIN)
    sources = [(url, f"Page {place}") for place, url in enumerate(cited)]
    return orjson.dumps(write(number, text, sources)).decode()


def _text(random: Random, characters: int, *, chinese: bool) -> str:
    names = (BRAND, *ALIASES, *COMPETITORS)
    parts: list[str] = []
    size = 0
    while size < characters:
        name, other = random.sample(names, 2)
        sentence = random.choice(_CHINESE if chinese else _ENGLISH)
        part = sentence.format(name=name, other=other, mark=random.randint(1, 20))
        part = f"\n\n{len(parts) // 6 + 1}. **{name}**: {part}" if len(parts) % 6 == 5 else part
        parts.append(part)
        size += len(part)
    return "".join(parts)


def _responses(number: int, text: str, sources: Sequence[Source]) -> dict[str, Any]:
    marks = [
        {"type": "url_citation", "url": url, "title": title, "start_index": place, "end_index": place + 1}
        for place, (url, title) in enumerate(sources)
    ]
    content = {"type": "output_text", "text": text, "annotations": marks}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [content]}
    return {"id": f"resp_{number}", "object": "response", "status": "completed", "model": "gpt", "output": [message]}


def _chat(number: int, text: str, sources: Sequence[Source]) -> dict[str, Any]:
    marks = [{"type": "url_citation", "url_citation": {"url": url, "title": title}} for url, title in sources]
    message = {"role": "assistant", "content": text, "annotations": marks}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": f"chatcmpl-{number}", "object": "chat.completion", "model": "gpt-search", "choices": [choice]}


def _perplexity(number: int, text: str, sources: Sequence[Source]) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    results = [{"title": title, "url": url, "date": None} for url, title in sources]
    head = {"id": f"pplx-{number}", "object": "chat.completion", "model": "sonar", "choices": [choice]}
    return {**head, "citations": [url for url, _ in sources], "search_results": results}


def _anthropic(number: int, text: str, sources: Sequence[Source]) -> dict[str, Any]:
    cited = [
        {"type": "web_search_result_location", "url": url, "title": title, "cited_text": "…"} for url, title in sources
    ]
    content = [{"type": "text", "text": text, "citations": cited}]
    head = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude"}
    return {**head, "content": content, "stop_reason": "end_turn"}


def _google(number: int, text: str, sources: Sequence[Source]) -> dict[str, Any]:
    chunks = [{"web": {"uri": url, "title": title}} for url, title in sources]
    candidate = {
        "content": {"parts": [{"text": text}], "role": "model"},
        "finishReason": "STOP",
        "groundingMetadata": {"groundingChunks": chunks, "webSearchQueries": ["tools for small teams"]},
    }
    return {"candidates": [candidate], "modelVersion": "gemini", "responseId": f"g-{number}"}


def _dashscope(number: int, text: str, sources: Sequence[Source]) -> dict[str, Any]:
    results = [
        {"index": place, "title": title, "url": url, "site_name": "示例网"}
        for place, (url, title) in enumerate(sources, start=1)
    ]
    choice = {"finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    output = {"choices": [choice], "search_info": {"search_results": results}}
    return {"output": output, "usage": {"output_tokens": 900}, "request_id": f"ds-{number}"}


WIRES: Final[tuple[tuple[str, Callable[[int, str, Sequence[Source]], dict[str, Any]]], ...]] = (
    ("openai", _responses),
    ("openrouter", _chat),
    ("perplexity", _perplexity),
    ("anthropic", _anthropic),
    ("google", _google),
    ("qwen", _dashscope),
)
