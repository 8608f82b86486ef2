"""`giveway desktop schemas`: the desktop protocol as JSON Schemas (draft 2020-12) and its catalogue as data.

Made from the types and tables that the hub and the API themselves use; docs/protocol/schemas holds them committed.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import msgspec
import typer
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from domain import desktop_calls, protocol, protocol_catalogue
from domain.phases import SAFE_POINT_BEFORE, Phase, SafePoint
from domain.protocol_catalogue import Call

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
REFERENCE: Final = "#/$defs/{name}"


@dataclass(frozen=True, slots=True)
class Route:
    """One REST call: where it goes, what it carries and what a success answers."""

    call: Call
    path: str
    token: str
    body: type[BaseModel]
    status: int
    answer: type[BaseModel]


def schemas(
    write: Annotated[Path | None, typer.Option(help="A folder to write the files to.")] = None,
    check: Annotated[Path | None, typer.Option(help="A folder to compare; exit code 1 when a file differs.")] = None,
) -> None:
    """The desktop protocol as JSON Schemas, and its codes as data, for code generators."""
    if (write is None) == (check is None):
        raise typer.BadParameter("give either --write DIR or --check DIR")
    if write is not None:
        _write(write)
    elif check is not None and (different := differing(check)):
        for name in different:
            typer.echo(f"{check / name} differs; write it anew: giveway desktop schemas --write {check}", err=True)
        raise typer.Exit(1)


def _write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")
        typer.echo(folder / name)


def differing(folder: Path) -> list[str]:
    """The names of the files that are missing in the folder or not as generated."""
    return [name for name, text in files().items() if _read(folder / name) != text]


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


def files() -> dict[str, str]:
    """The generated files, by name."""
    made = {
        "client-frames.json": client_frames(),
        "server-frames.json": server_frames(),
        "rest.json": rest(),
        "catalogue.json": catalogue(),
    }
    return {name: json.dumps(content, indent=2, ensure_ascii=False) + "\n" for name, content in made.items()}


# --- frames -----------------------------------------------------------------------------------------------------------


def client_frames() -> dict[str, Any]:
    """What a client sends; the hub refuses whatever this refuses."""
    return _frames("ClientFrame", "client-frames", protocol.AnyClientFrame)


def server_frames() -> dict[str, Any]:
    """What a hub sends. A field with a default may be missing; a client ignores types and fields it does not know."""
    return _frames("ServerFrame", "server-frames", protocol.AnyServerFrame)


def _frames(title: str, name: str, union: Any) -> dict[str, Any]:
    kinds = get_args(union)
    _, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    for definition in components.values():
        for field in definition.get("properties", {}).values():
            if field.get("type") == "object":
                # Said aloud: a generator told to close the frames would make an empty type of an open object.
                field.setdefault("additionalProperties", True)
    return _document(title, name, [kind.__name__ for kind in kinds], components)


def _document(title: str, name: str, members: list[str], components: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "$schema": DRAFT,
        "$id": f"urn:giveway:{protocol.SUBPROTOCOL}:{name}",
        "title": title,
        "anyOf": [{"$ref": REFERENCE.format(name=member)} for member in members],
        "$defs": {key: components[key] for key in sorted(components)},
    }


# --- REST -------------------------------------------------------------------------------------------------------------


def routes() -> tuple[Route, ...]:
    """Registration and the device's calls."""
    from api.clients import ClientNew, ClientRegistered

    task, calls = "/api/desktop/tasks/{task_id}", desktop_calls
    return (
        Route(Call.REGISTER, "/api/desktop/clients", "user", ClientNew, 201, ClientRegistered),
        Route(Call.LEASE, "/api/desktop/tasks/lease", "device", calls.PullCall, 200, calls.PullAnswer),
        Route(Call.START, f"{task}/start", "device", calls.LeaseCall, 200, calls.LeaseAnswer),
        Route(Call.EXTEND, f"{task}/extend", "device", calls.LeaseCall, 200, calls.LeaseAnswer),
        Route(Call.CANCEL, f"{task}/cancel", "device", calls.CancelCall, 200, calls.CancelAnswer),
        Route(Call.INTERRUPT_ACK, f"{task}/interrupt-ack", "device", calls.InterruptAckCall, 200, calls.CancelAnswer),
        Route(Call.RESULT, f"{task}/result", "device", calls.ResultCall, 202, calls.ResultAnswer),
        Route(
            Call.PROXY,
            "/api/desktop/proxy/{call_id}",
            "device",
            calls.ProxyAnswerCall,
            200,
            calls.ProxyAnswerTaken,
        ),
    )


def rest() -> dict[str, Any]:
    """Bodies and answers of the REST calls; `rest_calls` of the catalogue says which belongs where."""
    from api.problems import Problem

    bodies = dict.fromkeys(route.body for route in routes())
    answers = dict.fromkeys(route.answer for route in routes())
    modes: list[tuple[type[BaseModel], JsonSchemaMode]] = [(body, "validation") for body in bodies]
    modes += [*((answer, "serialization") for answer in answers), (Problem, "serialization")]
    _, schema = models_json_schema(modes, ref_template="#/$defs/{model}")
    for definition in schema["$defs"].values():
        # A generator would make a type of its own of every titled field.
        for field in definition.get("properties", {}).values():
            field.pop("title", None)
    return _document("RestBody", "rest", [model.__name__ for model, _mode in modes], schema["$defs"])


# --- codes ------------------------------------------------------------------------------------------------------------


def catalogue() -> dict[str, Any]:
    """Every code, bound and name of the protocol."""
    known = protocol_catalogue
    return {
        "subprotocols": list(protocol.SUPPORTED),
        "path": protocol.PATH,
        "bounds": _bounds(),
        "handshake_refusals": [asdict(each) for each in known.HANDSHAKE_REFUSALS],
        "close_codes": [
            {"code": each.code, "name": each.code.name.lower(), "reconnect": each.code.reconnect, **_words(each)}
            for each in known.CLOSINGS
        ],
        "error_codes": [{"code": each.code, **_words(each)} for each in known.COMMAND_ERRORS],
        "proxy_errors": [asdict(each) for each in known.PROXY_FAILURES],
        "rest_calls": [_route(each) for each in routes()],
        "rest_errors": [asdict(each) for each in known.REFUSALS],
        "controls": list(protocol.Control),
        "features": list(protocol.Feature),
        "phases": list(Phase),
        "safe_points": [{"name": point, "before": _phase_after(point)} for point in SafePoint],
    }


def _bounds() -> dict[str, int]:
    from api.body_guard import MAX_BODY_BYTES

    return {
        "client_frame_bytes": protocol.MAX_FRAME_BYTES,
        "rest_body_bytes": MAX_BODY_BYTES,
        "snapshot_page_items": protocol.SNAPSHOT_PAGE,
        "authentication_seconds": protocol.AUTHENTICATION_SECONDS,
        "heartbeat_seconds": protocol.HEARTBEAT_SECONDS,
        "silence_seconds": protocol.SILENCE_SECONDS,
        "lease_seconds": protocol.LEASE_SECONDS,
    }


def _words(entry: protocol_catalogue.Closing | protocol_catalogue.CommandError) -> dict[str, str]:
    return {"when": entry.when, "then": entry.then}


def _route(route: Route) -> dict[str, Any]:
    return {
        "call": route.call,
        "method": "POST",
        "path": route.path,
        "token": route.token,
        "body": route.body.__name__,
        "status": route.status,
        "answer": route.answer.__name__,
    }


def _phase_after(point: SafePoint) -> Phase | None:
    return next((phase for phase, passed in SAFE_POINT_BEFORE.items() if passed is point), None)
