"""`giveway badcases export` and `check`: labelled answers as a regression file, and the extractor held against it."""

import asyncio
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from commands.common import Json, console, print_json, running_settings
from commands.connections import open_database

if TYPE_CHECKING:
    from domain.regression import Difference, RegressionCase
    from store.badcase_export import LabelledAnswer
    from store.raw_answers import RawAnswers

Tenant = Annotated[int | None, typer.Option(min=1, help="Only this tenant's.")]
Brand = Annotated[int | None, typer.Option(min=1, help="Only this brand's.")]

LOST: Final = "the raw answer is gone"
CHANGED: Final = "the raw answer is another than the one that was labelled"


@dataclass(frozen=True, slots=True)
class Exported:
    """How many cases the file has of each kind; `skipped`: case → why it could not be written."""

    added: int
    changed: int
    unchanged: int
    skipped: dict[str, str]


def export(
    file: Annotated[Path, typer.Argument(dir_okay=False, help="The regression file; its other cases stay.")],
    tenant: Tenant = None,
    brand: Brand = None,
    json: Json = False,
) -> None:
    """Write labelled answers to a regression file: new ones are added, those it has are brought up to date."""
    from domain.regression import read_cases

    there = read_cases(file.read_text(encoding="utf-8")) if file.exists() else []
    found, skipped = asyncio.run(_labelled(tenant, brand))
    done = _merge(file, there, found, skipped)
    for case, reason in skipped.items():
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"skipped {case}: {reason}", markup=False)
    if json:
        print_json({"file": str(file), **asdict(done)})
    else:
        console.print(f"{escape(str(file))}: {done.added} added, {done.changed} changed, {done.unchanged} as they were")


def _merge(
    file: Path, there: "list[RegressionCase]", found: "list[RegressionCase]", skipped: dict[str, str]
) -> Exported:
    from domain.regression import write_cases

    cases = {case.id: case for case in there}
    kinds = Counter[str]()
    for case in found:
        kinds["unchanged" if cases.get(case.id) == case else "changed" if case.id in cases else "added"] += 1
        cases[case.id] = case
    file.write_text(write_cases(list(cases.values())), encoding="utf-8")
    return Exported(kinds["added"], kinds["changed"], kinds["unchanged"], skipped)


async def _labelled(tenant: int | None, brand: int | None) -> "tuple[list[RegressionCase], dict[str, str]]":
    from store.badcase_export import labelled_answers
    from store.raw_answers import RawAnswers

    raw_answers = RawAnswers(running_settings().raw_store_url, create=False)
    found: list[RegressionCase] = []
    skipped: dict[str, str] = {}
    async with open_database("badcases") as pool:
        async for answer in labelled_answers(pool, tenant, brand):
            case = await _with_body(raw_answers, answer)
            if isinstance(case, str):
                skipped[answer.id] = case
            else:
                found.append(case)
    return found, skipped


async def _with_body(raw_answers: "RawAnswers", answer: "LabelledAnswer") -> "RegressionCase | str":
    """The case, or why there is none."""
    from domain.errors import NotFound

    if answer.raw_answer_key is None:
        return LOST
    try:
        body = await raw_answers.get(answer.raw_answer_key)
    except NotFound:
        return LOST
    return answer.with_body(body.decode("utf-8")) if answer.is_of(body) else CHANGED


def check(
    files: Annotated[list[Path], typer.Argument(exists=True, dir_okay=False, help="Regression files.")],
    json: Json = False,
) -> None:
    """Hold today's extractor against what people said. Exit code 1 when it says anything else."""
    from domain.regression import differences, read_cases

    cases = [case for file in files for case in read_cases(file.read_text(encoding="utf-8"))]
    found = [difference for case in cases for difference in differences(case)]
    if json:
        print_json({"cases": len(cases), "differences": [asdict(each) for each in found]})
    else:
        _print(len(cases), found)
    raise typer.Exit(1 if found else 0)


def _print(cases: int, found: "list[Difference]") -> None:
    if found:
        table = Table("case", "what", "people say", "the extractor says", box=None)
        for each in found:
            table.add_row(escape(each.case), escape(each.field), str(each.expected), str(each.found))
        console.print(table)
    wrong = len({each.case for each in found})
    console.print(f"{cases} cases, {wrong} of them otherwise than people say")
