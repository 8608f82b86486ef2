"""`giveway badcases`: doubtful answers, what people say of them, and regression files of both (3-results §3.3)."""

import asyncio
import getpass
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.markup import escape
from rich.table import Table

from commands.badcase_files import Brand, Tenant, check, export
from commands.common import Json, console, print_json, running_settings
from commands.connections import open_database

if TYPE_CHECKING:
    from domain.labels import LabelledMention
    from store.badcases import CaseFilter, Labelled

app = typer.Typer(no_args_is_help=True, help="Answers that the extractor was not sure of, and what people say of them.")

STATES: Final = {"open": False, "labelled": True}
LISTED: Final = ("id", "tenant_id", "brand_id", "platform", "business_date", "reason", "confidence", "stands")

CaseId = Annotated[int, typer.Argument(min=1, help="The badcase's id.")]

Case = dict[str, Any]


@app.command("list")
def list_cases(
    tenant: Tenant = None,
    brand: Brand = None,
    reason: Annotated[str | None, typer.Option(help="Such as ambiguous_name or unknown_format.")] = None,
    platform: Annotated[str | None, typer.Option(help="Such as qwen.")] = None,
    state: Annotated[str | None, typer.Option(help="open or labelled.")] = None,
    since: Annotated[datetime | None, typer.Option("--from", formats=["%Y-%m-%d"], help="First business date.")] = None,
    until: Annotated[datetime | None, typer.Option("--to", formats=["%Y-%m-%d"], help="Last business date.")] = None,
    before: Annotated[int | None, typer.Option(min=1, help="Go on before this id.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 50,
    json: Json = False,
) -> None:
    """Doubtful answers, newest first."""
    from store.badcases import CaseFilter

    if state is not None and state not in STATES:
        raise typer.BadParameter(f"there is no state {state!r}; known: {', '.join(STATES)}")
    labelled = None if state is None else STATES[state]
    wanted = CaseFilter(brand, reason, platform, labelled, _day(since), _day(until))
    found = asyncio.run(_list(tenant, wanted, before, limit))
    if json:
        print_json({"badcases": found})
    else:
        console.print(_table(found))


def _day(given: datetime | None) -> date | None:
    return None if given is None else given.date()


async def _list(tenant: int | None, wanted: "CaseFilter", before: int | None, limit: int) -> list[Case]:
    from store import badcases

    async with open_database("badcases") as pool:
        return [dict(row) for row in await badcases.list_cases_of_all(pool, tenant, wanted, before, limit)]


def _table(found: list[Case]) -> Table:
    table = Table(box=None)
    for name in ("case", "tenant", "brand", "platform", "day", "reason", "sure", "stands"):
        table.add_column(name, no_wrap=True)
    table.add_column("question", overflow="ellipsis", no_wrap=True)
    table.add_column("label")
    for row in found:
        table.add_row(*(str(row[name]) for name in LISTED), escape(row["question"]), row["labelled_by"] or "")
    return table


@app.command()
def show(
    case_id: CaseId, text: Annotated[bool, typer.Option(help="Also the answer.")] = True, json: Json = False
) -> None:
    """One doubtful answer: question, figures, label, and the answer's text."""
    case = asyncio.run(_show(case_id, text))
    if json:
        print_json(case)
        return
    facts = Table(box=None, show_header=False)
    for key, value in case.items():
        if key != "text":
            facts.add_row(key, escape(str(value)))
    console.print(facts)
    if case.get("text") is not None:
        console.print(case["text"], markup=False, highlight=False)


async def _show(case_id: int, with_text: bool) -> Case:
    from domain.answers import read_answer
    from store import badcases
    from store.raw_answers import RawAnswers

    async with open_database("badcases") as pool:
        row = await badcases.read_case(pool, None, case_id)
    case = dict(row)
    if with_text:
        body = await badcases.read_body(RawAnswers(running_settings().raw_store_url, create=False), row)
        case["text"] = None if body is None else read_answer(body).text or body.decode("utf-8", "replace")
    return case


@app.command()
def label(
    case_id: CaseId,
    mention: Annotated[
        list[str] | None, typer.Option(metavar="NAME=COUNT@PLACE", help="A name that counts; may be repeated.")
    ] = None,
    nobody: Annotated[bool, typer.Option("--nobody", help="No name counts.")] = False,
    absent: Annotated[bool, typer.Option("--absent", help="It says that it knows nothing of the brand.")] = False,
    no_answer: Annotated[bool, typer.Option("--no-answer", help="There is no answer in it.")] = False,
    take_back: Annotated[bool, typer.Option("--take-back", help="Take the label back.")] = False,
    note: Annotated[str | None, typer.Option(help="Why; kept with the label.")] = None,
    json: Json = False,
) -> None:
    """Say what an answer says: every name that counts, the others do not. Its run's figures follow."""
    mentions = tuple(_mention(entry) for entry in mention or [])
    said = [bool(mentions) or absent, nobody and not absent, no_answer, take_back]
    if said.count(True) != 1 or (nobody and mentions):
        raise typer.BadParameter("say one thing: --mention and --absent, --nobody, --no-answer or --take-back")
    done = asyncio.run(_take_back(case_id) if take_back else _put(case_id, mentions, absent, no_answer, note))
    if json:
        print_json({"case": case_id, "version": done.version, "decides_figures": done.decides})
        return
    what = "taken back" if take_back else "put on"
    runs = "its run's figures follow" if done.decides else "its run keeps its figures"
    console.print(f"label of badcase {case_id} {what}; {runs}")


def _mention(entry: str) -> "LabelledMention":
    from domain.labels import LabelledMention

    name, _, numbers = entry.rpartition("=")
    count, _, place = numbers.partition("@")
    if not (name and count.isdecimal() and place.isdecimal() and int(count) and int(place)):
        raise typer.BadParameter(f"--mention {entry!r} is not NAME=COUNT@PLACE, both from 1, such as Acme=2@1")
    return LabelledMention(name, int(count), int(place))


async def _put(
    case_id: int, mentions: "tuple[LabelledMention, ...]", absent: bool, no_answer: bool, note: str | None
) -> "Labelled":
    from domain.labels import Label
    from store import badcases
    from store.raw_answers import RawAnswers

    raw_answers = RawAnswers(running_settings().raw_store_url, create=False)
    said = Label(not no_answer, mentions, absent, note)
    async with open_database("badcases") as pool:
        case = await badcases.read_case(pool, None, case_id)
        return await badcases.put_label(pool, raw_answers, case, said, expected=case["version"], actor=_actor())


async def _take_back(case_id: int) -> "Labelled":
    from store import badcases

    async with open_database("badcases") as pool:
        case = await badcases.read_case(pool, None, case_id)
        return await badcases.take_label_back(pool, case, expected=case["version"], actor=_actor())


def _actor() -> str:
    return f"cli:{getpass.getuser()}"


app.command("export")(export)
app.command("check")(check)
