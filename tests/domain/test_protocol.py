"""The protocol's types and its catalogue agree with each other and with the JSON Schemas made of them."""

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from commands.desktop_schemas import catalogue as catalogue_data
from commands.desktop_schemas import client_frames, differing, files, rest, server_frames
from domain import errors
from domain import protocol_catalogue as catalogue
from domain.protocol import (
    SUPPORTED,
    AnyClientFrame,
    AnyServerFrame,
    ErrorFrame,
    HeldAttempt,
    Hello,
    decode_client_frame,
    decode_server_frame,
    encode,
    negotiate,
)
from domain.protocol_catalogue import CloseCode, ErrorCode, ProxyError, may_reconnect
from hub.frames import FrameRefused, parse_client_frame

COMMITTED = Path(__file__).resolve().parents[2] / "docs/protocol/schemas"
CLIENT, SERVER = Draft202012Validator(client_frames()), Draft202012Validator(server_frames())
UUID = "01980a70-1c00-7000-8000-000000000002"

# --- the catalogue ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codes", "entries"),
    [
        (CloseCode, catalogue.CLOSINGS),
        (ErrorCode, catalogue.COMMAND_ERRORS),
        (ProxyError, catalogue.PROXY_FAILURES),
    ],
)
def test_every_code_is_explained_once(codes: Any, entries: Any) -> None:
    assert [entry.code for entry in entries] == list(codes)


def test_4500_to_4999_are_final_and_everything_else_connects_again() -> None:
    assert [code for code in (1000, 1006, 1012, 3000, 4000, 4400, 4499, 5000) if not may_reconnect(code)] == []
    assert [code for code in (4500, 4509, 4999) if may_reconnect(code)] == []
    assert (CloseCode.TOO_MANY_FRAMES, CloseCode.HUB_FULL) == (4429, 4430)
    assert all(code.reconnect == (code < 4500) for code in CloseCode)


def test_an_error_without_a_code_of_the_catalogue_is_an_internal_error() -> None:
    assert ErrorCode.of(errors.DatabaseUnavailable("away")) is ErrorCode.DATABASE_UNAVAILABLE
    assert ErrorCode.of(errors.LeaseLost("gone")) is ErrorCode.INTERNAL_ERROR


def test_a_refusal_is_listed_once_and_has_the_status_of_its_error() -> None:
    codes = [refusal.code for refusal in catalogue.REFUSALS]
    assert len(codes) == len(set(codes))
    leaves = {leaf.code: leaf.http_status for leaf in leaves_of(errors.GivewayError)}
    assert all(leaves.get(refusal.code, refusal.status) == refusal.status for refusal in catalogue.REFUSALS)


def leaves_of(root: type[errors.GivewayError]) -> list[type[errors.GivewayError]]:
    return [root, *(leaf for child in root.__subclasses__() for leaf in leaves_of(child))]


def test_a_client_repeats_what_the_server_could_not_do_now_and_nothing_else() -> None:
    for refusal in catalogue.REFUSALS:
        assert refusal.repeat == (refusal.status >= 500 or refusal.code in ("too_many_requests", "bad_request"))


# --- versions ---------------------------------------------------------------------------------------------------------


def test_the_first_offer_that_the_hub_knows_is_taken() -> None:
    hub = ("v3", "v2", "v1")
    assert negotiate(["v1", "v3"], hub) == "v1"
    assert negotiate(["v9", "v2", "v1"], hub) == "v2"
    assert negotiate(["v9"], hub) is None
    assert negotiate([], hub) is None
    assert negotiate(list(SUPPORTED)) == "giveway.v1"


# --- schemas ----------------------------------------------------------------------------------------------------------


def test_the_committed_schemas_are_the_generated_ones() -> None:
    assert differing(COMMITTED) == [], "run: giveway desktop schemas --write docs/protocol/schemas"


def test_a_changed_or_missing_file_differs(tmp_path: Path) -> None:
    for name, text in files().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert differing(tmp_path) == []
    (tmp_path / "rest.json").write_text("{}", encoding="utf-8")
    (tmp_path / "catalogue.json").unlink()
    assert differing(tmp_path) == ["rest.json", "catalogue.json"]


@pytest.mark.parametrize("schema", [client_frames(), server_frames(), rest()], ids=["client", "server", "rest"])
def test_the_schemas_are_schemas_and_each_member_is_told_apart(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)
    assert all(member["$ref"].rpartition("/")[2] in schema["$defs"] for member in schema["anyOf"])


def test_a_generator_told_to_close_the_frames_leaves_open_objects_open() -> None:
    fields = [field for one in server_frames()["$defs"].values() for field in one.get("properties", {}).values()]
    objects = [field for field in fields if field.get("type") == "object"]
    assert objects
    assert all("additionalProperties" in field for field in objects)


def test_the_catalogue_names_bodies_that_the_schema_defines() -> None:
    defined = rest()["$defs"]
    for call in catalogue_data()["rest_calls"]:
        assert {call["body"], call["answer"]} <= set(defined)


def a_frame(union: Any) -> st.SearchStrategy[Any]:
    return st.one_of([_of(kind) for kind in get_args(union)])


def _of(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Frames of a kind, drawn field by field from the types that the schemas are made of."""
    fields = {field.name: _values(field.type) for field in msgspec.inspect.type_info(kind).fields}  # type: ignore[union-attr]
    return st.builds(kind, **fields)


def _values(kind: Any) -> st.SearchStrategy[Any]:
    match kind:
        case msgspec.inspect.StrType(pattern=None):
            return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
        case msgspec.inspect.StrType():
            return st.just(UUID)
        case msgspec.inspect.IntType(ge=least, le=most):
            return st.integers(-(2**53) if least is None else least, 2**53 if most is None else most)
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.NoneType():
            return st.none()
        case msgspec.inspect.DateTimeType():
            return st.datetimes(timezones=st.timezones())
        case msgspec.inspect.EnumType(cls=cls):
            return st.sampled_from(cls)
        case msgspec.inspect.UnionType(types=types):
            return st.one_of([_values(each) for each in types])
        case msgspec.inspect.ListType(item_type=item):
            return st.lists(_values(item), max_size=2)
        case msgspec.inspect.DictType(value_type=value):
            return st.dictionaries(st.text("abc", max_size=3), _values(value), max_size=2)
        case msgspec.inspect.StructType(cls=cls):
            return _of(cls)
        case _:
            return st.just("anything")


QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@QUICK
@given(frame=a_frame(AnyClientFrame))
def test_every_client_frame_that_we_encode_is_valid_and_taken(frame: Any) -> None:
    text = encode(frame)
    CLIENT.validate(msgspec.json.decode(text))
    assert parse_client_frame(text) == decode_client_frame(text) == frame


@QUICK
@given(frame=a_frame(AnyServerFrame))
def test_every_server_frame_that_we_encode_is_valid_and_read(frame: Any) -> None:
    text = encode(frame)
    SERVER.validate(msgspec.json.decode(text))
    assert encode(decode_server_frame(text)) == text


WRONG = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        1.5,
        2**63,
        2**70,
        1001,
        99,
        600,
        "",
        "x",
        "l-",
        "l-1",
        "l-1\n",
        UUID + "\n",
        [],
        [1],
        {},
        {"a": 1},
    ]
)


@QUICK
@given(frame=a_frame(AnyClientFrame), data=st.data(), wrong=WRONG)
def test_what_the_schema_refuses_the_hub_refuses(frame: Any, data: st.DataObject, wrong: Any) -> None:
    value = msgspec.json.decode(encode(frame))
    spoil(value, data, wrong)
    if not CLIENT.is_valid(value):
        with pytest.raises(FrameRefused):
            parse_client_frame(msgspec.json.encode(value).decode())


def spoil(value: dict[str, Any], data: st.DataObject, wrong: Any) -> None:
    """Overwrite or take away a field, of the frame or of an attempt that it lists."""
    listed = [item for name in ("held", "running", "queued") for item in value.get(name, ())]
    target = data.draw(st.sampled_from([value, *listed]))
    name = data.draw(st.sampled_from(sorted(target)))
    if data.draw(st.booleans()):
        target[name] = wrong
    else:
        del target[name]


@pytest.mark.parametrize(
    "fields",
    [
        {"highest_generation": -1},
        {"highest_generation": 2**63},
        {"max_concurrent": 0},
        {"max_concurrent": 1001},
        {"held": [{"task_id": UUID, "attempt_id": "12"}]},
        {"held": [{"task_id": "l-x", "attempt_id": UUID}]},
        {"held": [{"task_id": UUID + "\n", "attempt_id": UUID}]},
    ],
)
def test_the_bounds_that_the_page_names_are_in_the_schema_and_in_the_hub(fields: dict[str, Any]) -> None:
    frame = {"type": "hello", "id": "1", **fields}
    assert not CLIENT.is_valid(frame)
    with pytest.raises(FrameRefused) as refused:
        parse_client_frame(msgspec.json.encode(frame).decode())
    assert (refused.value.close, refused.value.ref) == (None, "1")


def test_unknown_fields_and_words_of_a_newer_side_are_taken() -> None:
    newer = {"type": "hello", "id": "1", "new": {"a": 1}, "features": ["proxy", "telepathy"], "held": []}
    assert parse_client_frame(msgspec.json.encode(newer).decode()) == Hello(id="1", features=["proxy", "telepathy"])
    held = HeldAttempt(task_id="l-12", attempt_id=UUID, phase="DREAMING", state="pondering")
    assert parse_client_frame(encode(Hello(id="1", held=[held]))) == Hello(id="1", held=[held])
    error = '{"type": "error", "id": "1", "ref": null, "code": "of tomorrow", "message": "", "new": 1}'
    assert isinstance(decode_server_frame(error), ErrorFrame)
