"""docs/protocol says what the code does: its tables are the catalogue, its examples valid, its links whole."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

from commands.desktop_schemas import client_frames, rest, server_frames
from domain import protocol_catalogue as catalogue
from domain.protocol import AnyClientFrame, AnyServerFrame, decode_client_frame, decode_server_frame

FOLDER = Path(__file__).resolve().parents[2] / "docs/protocol"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
# ```json client | server | NameOfARestBody
EXAMPLES = re.findall(r"^```json (\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def table(header: str, rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table as the page has it."""
    columns = header.count("|") + 1
    lines = [f"| {header} |", "| " + " | ".join(["---"] * columns) + " |"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def tables() -> Iterator[tuple[str, str]]:
    """The page's tables of codes, by name."""
    handshake = [(each.status, each.when, each.then) for each in catalogue.HANDSHAKE_REFUSALS]
    closings = [(each.code.value, each.code.name.lower(), each.when, each.then) for each in catalogue.CLOSINGS]
    errors = [(f"`{each.code}`", each.when, each.then) for each in catalogue.COMMAND_ERRORS]
    proxy = [(f"`{each.code}`", _after(each.retry), each.when) for each in catalogue.PROXY_FAILURES]
    refusals = [(f"{r.status} `{r.code}`", _calls(r.calls), r.when, r.then) for r in catalogue.REFUSALS]
    yield "handshake", table("status | when | then", handshake)
    yield "closings", table("code | name | when | then", closings)
    yield "errors", table("code | when | then", errors)
    yield "proxy", table("`error` of a `proxy_response` | the server | when", proxy)
    yield "refusals", table("status, code | from | when | then", refusals)


def _after(retry: bool) -> str:
    return "tries again" if retry else "gives up"


def _calls(calls: tuple[catalogue.Call, ...]) -> str:
    names = {catalogue.EVERY_CALL: "all", catalogue.DEVICE_CALLS: "a desktop's", catalogue.TASK_CALLS: "about a task"}
    with_registration = (catalogue.Call.REGISTER, *catalogue.TASK_CALLS)
    with_calls = (*with_registration, catalogue.Call.PROXY)
    names |= {with_registration: "about a task, register", with_calls: "about a task, register, proxy"}
    return names.get(calls, ", ".join(calls))


@pytest.mark.parametrize(("name", "text"), list(tables()))
def test_the_tables_of_codes_are_the_catalogue(name: str, text: str) -> None:
    assert text in PAGE, f"docs/protocol/README.md should hold this table of {name}:\n{text}"


@pytest.mark.parametrize(("kind", "text"), EXAMPLES)
def test_every_example_is_valid(kind: str, text: str) -> None:
    example = json.loads(text)
    schemas = {"client": client_frames(), "server": server_frames()}
    schema = schemas.get(kind) or {"$ref": f"#/$defs/{kind}", "$defs": rest()["$defs"]}
    validate(schema, example)
    if kind in schemas:
        decode = decode_client_frame if kind == "client" else decode_server_frame
        assert known(example) <= set(decode(text).__struct_fields__)


def validate(schema: dict[str, Any], value: Any) -> None:
    """By the schema alone, formats too."""
    Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(value)


def known(frame: dict[str, Any]) -> set[str]:
    return set(frame) - {"type"}


def test_there_is_an_example_of_every_frame_and_body() -> None:
    frames = {json.loads(text)["type"] for kind, text in EXAMPLES if kind in ("client", "server")}
    kinds = [*get_args(AnyClientFrame), *get_args(AnyServerFrame)]
    assert frames == {kind.__struct_config__.tag for kind in kinds}
    # A pull answers the fields of a frame, which has its example.
    bodies = {member["$ref"].rpartition("/")[2] for member in rest()["anyOf"]} - {"PullAnswer"}
    assert {kind for kind, _ in EXAMPLES} - {"client", "server"} == bodies


@pytest.mark.parametrize("kind", [*get_args(AnyClientFrame), *get_args(AnyServerFrame)])
def test_every_field_is_explained(kind: type[Any]) -> None:
    missing = [name for name in kind.__struct_fields__ if f"`{name}`" not in PAGE and f".{name}`" not in PAGE]
    assert missing == []


def test_no_diagram_has_a_semicolon() -> None:
    """It ends a statement of mermaid's, also in the middle of a text: the whole diagram is an error then."""
    diagrams = re.findall(r"^```mermaid\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert diagrams
    assert not [line for diagram in diagrams for line in diagram.splitlines() if ";" in line]


def test_links_inside_the_page_and_to_files_lead_somewhere() -> None:
    headings = {_anchor(title) for title in re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)}
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        assert target[1:] in headings if target.startswith("#") else (FOLDER / target).exists(), target


def _anchor(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
