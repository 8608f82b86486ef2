"""The benchmark of ingest in small: real worker processes, yardsticks of the same rows, checked and explained."""

import asyncio
import io

import orjson
import pytest
from rich.console import Console

from bench.answers import WIRES, bodies
from bench.ingest import Options, Setup, run_bench
from bench.pages import Pages
from domain.answers import AnswerKind, read_answer
from tests.conftest import Servers

SMALL = Options(results=60, rounds=1, citations=3, setups=(Setup(2, 2),), inserted=20, projection_runs=(20,))


def test_the_figures_stand_beside_copy_and_row_by_row_inserts_of_the_same_rows(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", servers.database_url)
    monkeypatch.setenv("AMQP_URL", servers.amqp_url)
    figures = asyncio.run(run_bench(SMALL, Console(file=io.StringIO())))
    [one] = figures["ingest"]
    assert (one["shards"], one["workers"]) == (2, 2)
    assert figures["rows_per_result"] == 5
    assert figures["results_per_second"] == one["results_per_second"] > 0
    assert figures["rows_per_second"] == pytest.approx(5 * one["results_per_second"], abs=5)
    assert figures["compared_with_copy"] in figures["copy"]
    ways = (*figures["copy"].values(), *figures["row_by_row"].values())
    assert len(ways) == 4
    assert all(way["results_per_second"] > 0 for way in ways)
    assert figures["rate_to_row_by_row"] == pytest.approx(
        figures["row_by_row"][figures["compared_with_row_by_row"]]["ingest_is_times_as_fast"], abs=0.01
    )
    assert set(figures["durability"]) == {"fsync", "synchronous_commit"}
    assert one["citations"] == 180
    assert 0 < one["distinct_pages"] < 180
    for stages in figures["profile"]["our_processor_ms_per_result"].values():
        assert set(stages) == {"decode", "read", "parse"}
    assert "upsert_runs" in {each["statement"] for each in figures["profile"]["statements"]}
    assert set(figures["projections"]) == {"20"}
    assert set(figures["met"]) == set(figures["targets"]) == {"rate_to_copy", "rate_to_row_by_row"}
    assert (figures["bound_by"] is None) == all(figures["met"].values())
    assert orjson.loads(orjson.dumps(figures)) == figures


def test_fresh_pages_never_come_again_and_skewed_ones_do() -> None:
    def cited(pages: Pages) -> list[str | None]:
        return [
            source.url
            for body in bodies(60, citations=20, pages=pages)
            for source in read_answer(body.encode()).citations
        ]

    fresh, skewed = cited("fresh"), cited("skewed")
    assert len(set(fresh)) == len(fresh) == len(skewed)
    assert len(set(skewed)) < 0.8 * len(skewed)


def test_its_answers_are_read_in_every_wire_with_all_their_citations() -> None:
    read = [read_answer(body.encode()) for body in bodies(2 * len(WIRES), citations=20)]
    assert {answer.kind for answer in read} == {AnswerKind.ANSWER}
    assert {len(answer.citations) for answer in read} == {20}
    assert len({answer.wire for answer in read}) == len(WIRES)
    assert all(2_000 <= len(answer.text) <= 2_400 for answer in read)
