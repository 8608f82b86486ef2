"""The questions asked about a brand, and the versions of their texts."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from api.access import Operator, SignedIn, reach_of
from api.brands import after_id
from api.fields import Body, Flag, Id, PathId, Platforms, QuestionText
from api.pages import Cursor, Limit, Page, page_of
from api.state import State
from domain.errors import Conflict
from store import catalog
from store.catalog import NewQuestion

router = APIRouter(prefix="/api/tenant/monitoring", tags=["catalog"])


class QuestionNew(Body):
    """`only_platforms` null: asked on every platform of the plan."""

    text: QuestionText
    keyword_id: Id | None = None
    topic_id: Id | None = None
    only_platforms: Platforms | None = None


class QuestionList(Body):
    questions: Annotated[list[QuestionNew], Field(min_length=1, max_length=500)]


class QuestionChange(Body):
    """Only what is given changes; a new text is a new version, and resets what is collected from it."""

    text: QuestionText = Field(default_factory=str)
    keyword_id: Id | None = None
    topic_id: Id | None = None
    only_platforms: Platforms | None = None
    active: Flag = Field(default_factory=bool)


class Question(BaseModel):
    id: int
    brand_id: int
    keyword_id: int | None
    topic_id: int | None
    text: str
    current_version_id: int
    only_platforms: list[str] | None
    active: bool
    created_at: datetime
    updated_at: datetime


class QuestionsAdded(BaseModel):
    """All of the list as they stand now; `created` counts those that are new."""

    items: list[Question]
    created: int


def _draft(body: QuestionNew) -> NewQuestion:
    return NewQuestion(body.text, body.keyword_id, body.topic_id, body.only_platforms)


@router.post("/brands/{brand_id}/questions", status_code=201)
async def create_question(state: State, principal: Operator, brand_id: PathId, body: QuestionNew) -> Question:
    """Add one question; 409 for a text the brand has."""
    rows, created = await catalog.add_questions(state.pool, reach_of(principal), brand_id, [_draft(body)])
    if not created:
        raise Conflict(f"the brand has this question: {rows[0]['id']}")
    return Question(**rows[0])


@router.post("/brands/{brand_id}/questions/bulk")
async def add_questions(state: State, principal: Operator, brand_id: PathId, body: QuestionList) -> QuestionsAdded:
    """Add up to 500 questions; texts the brand has stay as they are, so sending a list again is harmless."""
    drafts = [_draft(question) for question in body.questions]
    rows, created = await catalog.add_questions(state.pool, reach_of(principal), brand_id, drafts)
    return QuestionsAdded(items=[Question(**row) for row in rows], created=created)


@router.get("/brands/{brand_id}/questions")
async def list_questions(
    state: State, principal: SignedIn, brand_id: PathId, cursor: Cursor = None, limit: Limit = 50
) -> Page[Question]:
    """The brand's questions, inactive ones too."""
    found = await catalog.list_of_brand(
        state.pool, reach_of(principal), brand_id, "questions", after_id(cursor), limit + 1
    )
    return page_of(Question, found, limit)


@router.get("/questions/{question_id}")
async def read_question(state: State, principal: SignedIn, question_id: PathId) -> Question:
    """One question."""
    return Question(**await catalog.read_question(state.pool, reach_of(principal), question_id))


@router.patch("/questions/{question_id}")
async def change_question(state: State, principal: Operator, question_id: PathId, body: QuestionChange) -> Question:
    """Change a question; `active: false` stops asking it."""
    changes = body.model_dump(exclude_unset=True)
    return Question(**await catalog.change_question(state.pool, reach_of(principal), question_id, changes))
