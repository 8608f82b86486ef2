"""Brands and what hangs on them: competitors, topics, keywords; and the platforms that can be asked."""

from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel, Field

from api.access import Operator, SignedIn, reach_of
from api.fields import Aliases, Body, Domains, Id, Name, PathId
from api.pages import Cursor, Limit, Page, decode_cursor, id_part, page_of
from api.state import State
from store import catalog, reads

router = APIRouter(prefix="/api/tenant/monitoring", tags=["catalog"])


class BrandNew(Body):
    """A brand to monitor. Domains count its own pages among the citations, subdomains included."""

    workspace_id: Id
    name: Name
    aliases: Aliases = Field(default_factory=list)
    domains: Domains = Field(default_factory=list)


class BrandChange(Body):
    """Only what is given changes."""

    name: Name = Field(default_factory=str)
    aliases: Aliases = Field(default_factory=list)
    domains: Domains = Field(default_factory=list)


class Brand(BaseModel):
    id: int
    workspace_id: int
    name: str
    aliases: list[str]
    domains: list[str]
    created_at: datetime
    updated_at: datetime


class CompetitorNew(Body):
    name: Name
    aliases: Aliases = Field(default_factory=list)
    domains: Domains = Field(default_factory=list)


class Competitor(BaseModel):
    id: int
    brand_id: int
    name: str
    aliases: list[str]
    domains: list[str]
    created_at: datetime


class TopicNew(Body):
    name: Name


class Topic(BaseModel):
    id: int
    brand_id: int
    name: str


class KeywordNew(Body):
    text: Name
    topic_id: Id | None = None


class Keyword(BaseModel):
    id: int
    brand_id: int
    text: str
    topic_id: int | None


class Platform(BaseModel):
    id: str
    name: str
    supports_standard: bool
    supports_search_grounded: bool
    supports_citation: bool
    supports_batch: bool
    default_run_mode: str


class Platforms(BaseModel):
    items: list[Platform]


def after_id(cursor: str | None) -> int:
    """Where an ascending list goes on; 0 at its start."""
    found = decode_cursor(cursor, id_part)
    return 0 if found is None else int(found[0])


@router.get("/platforms")
async def list_platforms(state: State, principal: SignedIn) -> Platforms:
    """The AI platforms and what each can do."""
    return Platforms(items=[Platform(**row) for row in await reads.list_platforms(state.pool)])


@router.post("/brands", status_code=201)
async def create_brand(state: State, principal: Operator, body: BrandNew) -> Brand:
    """Add a brand to one of the caller's workspaces."""
    row = await catalog.create_brand(
        state.pool, reach_of(principal), body.workspace_id, body.name, body.aliases, body.domains
    )
    return Brand(**row)


@router.get("/brands")
async def list_brands(state: State, principal: SignedIn, cursor: Cursor = None, limit: Limit = 50) -> Page[Brand]:
    """The brands of the caller's workspaces."""
    rows = await catalog.list_brands(state.pool, reach_of(principal), after_id(cursor), limit + 1)
    return page_of(Brand, rows, limit)


@router.get("/brands/{brand_id}")
async def read_brand(state: State, principal: SignedIn, brand_id: PathId) -> Brand:
    """One brand."""
    return Brand(**await catalog.read_brand(state.pool, reach_of(principal), brand_id))


@router.patch("/brands/{brand_id}")
async def change_brand(state: State, principal: Operator, brand_id: PathId, body: BrandChange) -> Brand:
    """Change a brand; facts already collected keep the judgement of their day."""
    changes = body.model_dump(exclude_unset=True)
    return Brand(**await catalog.change_brand(state.pool, reach_of(principal), brand_id, changes))


@router.post("/brands/{brand_id}/competitors", status_code=201)
async def create_competitor(state: State, principal: Operator, brand_id: PathId, body: CompetitorNew) -> Competitor:
    """Add a competitor to compare with."""
    row = await catalog.create_competitor(
        state.pool, reach_of(principal), brand_id, body.name, body.aliases, body.domains
    )
    return Competitor(**row)


@router.get("/brands/{brand_id}/competitors")
async def list_competitors(
    state: State, principal: SignedIn, brand_id: PathId, cursor: Cursor = None, limit: Limit = 50
) -> Page[Competitor]:
    """The brand's competitors."""
    found = await catalog.list_of_brand(
        state.pool, reach_of(principal), brand_id, "competitors", after_id(cursor), limit + 1
    )
    return page_of(Competitor, found, limit)


@router.delete("/brands/{brand_id}/competitors/{competitor_id}", status_code=204)
async def delete_competitor(state: State, principal: Operator, brand_id: PathId, competitor_id: PathId) -> None:
    """Compare no longer."""
    await catalog.delete_competitor(state.pool, reach_of(principal), brand_id, competitor_id)


@router.post("/brands/{brand_id}/topics", status_code=201)
async def create_topic(state: State, principal: Operator, brand_id: PathId, body: TopicNew) -> Topic:
    """Add a topic to group keywords and questions by."""
    return Topic(**await catalog.create_topic(state.pool, reach_of(principal), brand_id, body.name))


@router.get("/brands/{brand_id}/topics")
async def list_topics(
    state: State, principal: SignedIn, brand_id: PathId, cursor: Cursor = None, limit: Limit = 50
) -> Page[Topic]:
    """The brand's topics."""
    rows = await catalog.list_of_brand(state.pool, reach_of(principal), brand_id, "topics", after_id(cursor), limit + 1)
    return page_of(Topic, rows, limit)


@router.post("/brands/{brand_id}/keywords", status_code=201)
async def create_keyword(state: State, principal: Operator, brand_id: PathId, body: KeywordNew) -> Keyword:
    """Add a keyword to group questions by."""
    row = await catalog.create_keyword(state.pool, reach_of(principal), brand_id, body.text, body.topic_id)
    return Keyword(**row)


@router.get("/brands/{brand_id}/keywords")
async def list_keywords(
    state: State, principal: SignedIn, brand_id: PathId, cursor: Cursor = None, limit: Limit = 50
) -> Page[Keyword]:
    """The brand's keywords."""
    rows = await catalog.list_of_brand(
        state.pool, reach_of(principal), brand_id, "keywords", after_id(cursor), limit + 1
    )
    return page_of(Keyword, rows, limit)
