"""Doubtful answers: what the extractor was not sure of, and what people say of it (3-results §3.3, V3 §2.2.4)."""

import asyncio
from datetime import date, datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field, StringConstraints

from api.access import Operator, SignedIn, reach_of
from api.fields import Body, Flag, Name, PathId, PlatformSlug, QueryId
from api.ops.versions import VERSIONED, Expected, actor_of, show_version
from api.pages import Cursor, Limit, Page, decode_cursor, id_part, page_of
from api.state import State
from domain.answers import read_answer
from domain.errors import NotFound
from domain.labels import Label, LabelledMention
from store import badcases
from store.badcases import CaseFilter

router = APIRouter(prefix="/api/tenant/monitoring/badcases", tags=["badcases"])

MAX_TEXT: Final = 1_000_000
# A stranger's words, served from our own origin: never markup, never kept.
PLAIN: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "no-store",
}
INT32_MAX: Final = 2**31 - 1

CaseState = Literal["open", "labelled"]
Note = Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000)]


class Badcase(BaseModel):
    """A doubtful answer. `stands`: its run is still of this answer, so that a label decides the run's figures."""

    id: int
    brand_id: int
    run_id: int
    question_id: int
    question: str
    platform: str
    run_mode: str
    business_date: date
    reason: str
    confidence: float | None
    extractor_version: str | None
    stands: bool
    labelled_by: str | None
    labelled_at: datetime | None
    created_at: datetime
    version: int


class Run(BaseModel):
    """The run as it is now, whosever answer it is of."""

    status: str
    failure_kind: str | None
    failure_reason: str | None
    wire: str | None
    finish_reason: str | None
    answer_chars: int | None
    provider_model: str | None
    run_at: datetime


class Parse(BaseModel):
    """The run's figures as they are now. `share_of_voice` from 0 to 1; offsets in code points of the answer's text."""

    brand_mentioned: bool
    brand_mention_count: int
    brand_position: int | None
    absence: bool
    share_of_voice: float | None
    competitor_mention_count: int
    mentions: list[dict[str, Any]]
    citation_count: int


class MentionLabel(Body):
    """A name that counts. `position`: its place among the names, from 1; `first_offset` in code points."""

    name: Name
    count: Annotated[int, Field(strict=True, ge=1, le=100_000)]
    position: Annotated[int, Field(strict=True, ge=1, le=10_000)]
    first_offset: Annotated[int, Field(strict=True, ge=0, le=INT32_MAX)] | None = None


class LabelPut(Body):
    """What a person says of the answer: every name that counts, the others do not. Names or aliases of the settings.

    `is_answer` false: there is no answer in it, and nothing is said of any name. `absence`: it says that it knows
    nothing of the brand.
    """

    is_answer: Flag
    mentions: Annotated[list[MentionLabel], Field(max_length=200)] = Field(default_factory=list)
    absence: Flag = False
    note: Note | None = None


class LabelShown(BaseModel):
    is_answer: bool
    absence: bool
    mentions: list[dict[str, Any]]
    note: str | None


class BadcaseDetail(Badcase):
    """With its run, the run's figures (null where the run failed) and the label.

    `has_answer`: `…/answer` has its text.
    """

    attempt_id: UUID
    has_answer: bool
    run: Run
    parse: Parse | None
    label: LabelShown | None


class BadcaseChanged(BaseModel):
    """The case after a change of its label.

    `decides_figures` false: the run is of a later answer by now and keeps its figures; the label is for regression
    files alone.
    """

    decides_figures: bool
    case: BadcaseDetail


async def found_case(state: State, principal: SignedIn, badcase_id: PathId) -> badcases.Record:
    """The case of the path; NotFound, before anything else is said of the call."""
    return await badcases.read_case(state.pool, reach_of(principal), badcase_id)


Found = Annotated[badcases.Record, Depends(found_case)]


@router.get("")
async def list_badcases(
    state: State,
    principal: SignedIn,
    brand_id: QueryId = None,
    reason: Annotated[str | None, Query(pattern="^[a-z0-9_]{1,50}$")] = None,
    platform: PlatformSlug | None = None,
    status: Annotated[CaseState | None, Query(alias="state")] = None,
    since: Annotated[date | None, Query(alias="from", description="first business date")] = None,
    until: Annotated[date | None, Query(alias="to", description="last business date")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[Badcase]:
    """Doubtful answers, newest first."""
    labelled = None if status is None else status == "labelled"
    wanted = CaseFilter(brand_id, reason, platform, labelled, since, until)
    found = decode_cursor(cursor, id_part)
    rows = await badcases.list_cases(state.pool, reach_of(principal), wanted, found[0] if found else None, limit + 1)
    return page_of(Badcase, rows, limit)


@router.get("/{badcase_id}", responses=VERSIONED)
async def read_badcase(case: Found, response: Response) -> BadcaseDetail:
    """One doubtful answer with what is stored of it."""
    show_version(response, case["version"])
    return _detail(case)


@router.get("/{badcase_id}/answer", response_class=PlainTextResponse)
async def read_badcase_answer(
    state: State,
    case: Found,
    form: Annotated[Literal["text", "body"], Query(description="text: what is read from the body")] = "text",
) -> PlainTextResponse:
    """The answer's text, in which labels count their offsets; the body as it came where no text is found in it.

    At most a million characters of it.
    """
    body = await badcases.read_body(state.raw_answers, case)
    if body is None:
        raise NotFound(f"no answer is stored for badcase {case['id']}")
    text = (await asyncio.to_thread(read_answer, body)).text if form == "text" else ""
    return PlainTextResponse((text or body.decode("utf-8", "replace"))[:MAX_TEXT], headers=PLAIN)


@router.put("/{badcase_id}/label", responses=VERSIONED)
async def put_badcase_label(
    state: State, principal: Operator, case: Found, expected: Expected, body: LabelPut, response: Response
) -> BadcaseChanged:
    """Say what the answer says; the run's figures follow, and a regression case is kept. 422 for an unknown name."""
    actor = actor_of(principal)
    done = await badcases.put_label(state.pool, state.raw_answers, case, _label(body), expected=expected, actor=actor)
    return await _changed(state, case, done, response)


@router.delete("/{badcase_id}/label", responses=VERSIONED)
async def delete_badcase_label(
    state: State, principal: Operator, case: Found, expected: Expected, response: Response
) -> BadcaseChanged:
    """Take the label back: the case is open again, and its run says what the extractor had said."""
    done = await badcases.take_label_back(state.pool, case, expected=expected, actor=actor_of(principal))
    return await _changed(state, case, done, response)


async def _changed(state: State, case: badcases.Record, done: badcases.Labelled, response: Response) -> BadcaseChanged:
    row = await badcases.read_case(state.pool, None, case["id"])  # the caller's, as it was found
    show_version(response, row["version"])
    return BadcaseChanged(decides_figures=done.decides, case=_detail(row))


def _label(body: LabelPut) -> Label:
    mentions = tuple(LabelledMention(**mention.model_dump()) for mention in body.mentions)
    return Label(body.is_answer, mentions, body.absence, body.note or None)


def _detail(row: badcases.Record) -> BadcaseDetail:
    given = dict(row)
    parse = Parse(**given) if given["brand_mentioned"] is not None else None
    return BadcaseDetail(
        **{**given, "has_answer": given["raw_answer_key"] is not None, "run": Run(**given), "parse": parse}
    )
