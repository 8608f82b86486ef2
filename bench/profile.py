"""Where the time of ingest goes: processor time by stage and by process, PostgreSQL's answers by statement."""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeVar

import asyncpg

from broker.results import decode_result
from domain.answers import Answer, read_answer
from domain.parsing.result import parse_answer
from store.database import Pool, prepare_connection
from store.facts import BrandNames
from store.statements import FOLDER, statements

SHOWN_STATEMENTS: Final = 12
GROUP: Final = 25

T = TypeVar("T")


class Statements:
    """Counts and times every statement of its pool, as the client sees them."""

    def __init__(self) -> None:
        self._names = {sql: name for file in FOLDER.glob("*.sql") for name, sql in statements(file.stem).items()}
        self._calls: defaultdict[str, int] = defaultdict(int)
        self._seconds: defaultdict[str, float] = defaultdict(float)

    async def open_pool(self, url: str, *, size: int) -> Pool:
        """A pool whose connections tell this object of each statement."""
        return await asyncpg.create_pool(url, min_size=1, max_size=size, init=self._watch, command_timeout=600)

    async def _watch(self, connection: Any) -> None:
        await prepare_connection(connection)
        connection.add_query_logger(self._heard)

    def _heard(self, record: Any) -> None:
        name = self._names.get(record.query, " ".join(record.query.split())[:40])
        self._calls[name] += 1
        self._seconds[name] += record.elapsed

    def figures(self, results: int) -> list[dict[str, Any]]:
        """The slowest statements: calls in all, and milliseconds a result."""
        slowest = sorted(self._seconds, key=lambda name: -self._seconds[name])[:SHOWN_STATEMENTS]
        return [
            {
                "statement": name,
                "calls": self._calls[name],
                "ms_per_result": round(self._seconds[name] * 1000 / results, 3),
            }
            for name in slowest
        ]


def stages(messages: Sequence[bytes], question: str, brand: BrandNames) -> dict[str, float]:
    """Processor milliseconds a result of decoding, reading and parsing these messages, one after the other."""
    raws = [(decode_result(body).raw or "").encode() for body in messages]
    answers = [read_answer(raw) for raw in raws]

    def parse(some: Sequence[Answer]) -> None:
        for answer in some:
            parse_answer(
                answer.text,
                question=question,
                names=brand.names,
                own_domains=brand.own_domains,
                competitor_domains=brand.competitor_domains,
                citation_urls=[(each.url, each.title, each.site_name) for each in answer.citations if each.url],
            )

    return {
        "decode": _each(lambda: [decode_result(body) for body in messages], len(messages)),
        "read": _each(lambda: [read_answer(raw) for raw in raws], len(messages)),
        "parse": _steady(parse, answers),
    }


def _steady(work: Callable[[Sequence[T]], None], items: Sequence[T]) -> float:
    """The median of groups, the first of which only fill the caches. Once: a second time every page would be known."""
    groups = [items[first : first + GROUP] for first in range(0, len(items), GROUP)]
    spent = [_processor_ms(partial(work, group)) / len(group) for group in groups]
    return round(median(spent[len(spent) // 4 :]), 3)


def _each(work: Callable[[], object], count: int, *, passes: int = 3) -> float:
    """The least of the passes: what else runs on the machine only adds."""
    return round(min(_processor_ms(work) for _ in range(passes)) / count, 3)


def _processor_ms(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1000


async def backend_seconds(pool: Pool) -> dict[int, float]:
    """Processor seconds by server process of this database; nothing where it runs on another machine or is not ours."""
    rows = await pool.fetch("select pid from pg_stat_activity where datname = current_database()")
    return {row["pid"]: seconds for row in rows if (seconds := _seconds_of(row["pid"])) is not None}


def _seconds_of(pid: int) -> float | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
