"""What a tenant monitors: brands, competitors, topics, keywords, questions (3-results §3.1).

Every statement names the tenant and, through the brand, the workspaces that the caller's token opens.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import asyncpg

from domain.errors import Conflict, NotFound
from store.database import Connection, Pool, transaction
from store.projections import mark_brand, mark_wording
from store.statements import statements
from store.text_changes import ask_anew

SQL, LOCKS = statements("catalog"), statements("locks")

Record = asyncpg.Record
Changes = Mapping[str, Any]

# Unique constraints as what a caller can do about them.
CONFLICTS: Final[Mapping[str, str]] = {
    "brands_name_key": "the tenant has a brand of this name",
    "competitors_name_key": "the brand has a competitor of this name",
    "topics_name_key": "the brand has a topic of this name",
    "keywords_text_key": "the brand has this keyword",
    "questions_text_key": "the brand has a question of this text",
}


@dataclass(frozen=True, slots=True)
class Reach:
    """What the caller may touch: one tenant, some of its workspaces."""

    tenant_id: int
    workspace_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NewQuestion:
    """One question to add. `only_platforms` None: every platform of the plan."""

    text: str
    keyword_id: int | None = None
    topic_id: int | None = None
    only_platforms: list[str] | None = None


@contextmanager
def _named_conflicts() -> Iterator[None]:
    try:
        yield
    except asyncpg.UniqueViolationError as error:
        raise Conflict(CONFLICTS.get(error.constraint_name or "", "it exists already")) from error


def _found(row: Record | None, what: str) -> Record:
    if row is None:
        raise NotFound(f"no {what}")
    return row


# --- brands --------------------------------------------------------------------------------------------------


async def create_brand(
    pool: Pool, reach: Reach, workspace_id: int, name: str, aliases: list[str], domains: list[str]
) -> Record:
    """Conflict for a name in use; NotFound for a workspace out of reach."""
    with _named_conflicts():
        row = await pool.fetchrow(
            SQL["create_brand"], reach.tenant_id, list(reach.workspace_ids), workspace_id, name, aliases, domains
        )
    return _found(row, f"workspace {workspace_id}")


async def list_brands(pool: Pool, reach: Reach, after: int, limit: int) -> list[Record]:
    """By id, after the given one."""
    return await pool.fetch(SQL["list_brands"], reach.tenant_id, list(reach.workspace_ids), after, limit)


async def read_brand(where: Pool | Connection, reach: Reach, brand_id: int) -> Record:
    """NotFound for one that is missing or out of reach."""
    row = await where.fetchrow(SQL["read_brand"], reach.tenant_id, list(reach.workspace_ids), brand_id)
    return _found(row, f"brand {brand_id}")


async def change_brand(pool: Pool, reach: Reach, brand_id: int, changes: Changes) -> Record:
    """Only the given ones of name, aliases and domains."""
    async with transaction(pool) as connection:
        await connection.execute(SQL["lock_brand"], reach.tenant_id, brand_id)
        new = {**dict(await read_brand(connection, reach, brand_id)), **changes}
        with _named_conflicts():
            row = await connection.fetchrow(
                SQL["change_brand"], reach.tenant_id, brand_id, new["name"], new["aliases"], new["domains"]
            )
    return _found(row, f"brand {brand_id}")


# --- competitors, topics, keywords: all of one brand, which the caller has looked up ------------------------------


async def create_competitor(
    pool: Pool, reach: Reach, brand_id: int, name: str, aliases: list[str], domains: list[str]
) -> Record:
    """Conflict for a name in use. The brand's days show it from now on."""
    async with transaction(pool) as connection:
        with _named_conflicts():
            row = await connection.fetchrow(
                SQL["create_competitor"], reach.tenant_id, list(reach.workspace_ids), brand_id, name, aliases, domains
            )
        found = _found(row, f"brand {brand_id}")
        await mark_brand(connection, reach.tenant_id, brand_id)
    return found


async def delete_competitor(pool: Pool, reach: Reach, brand_id: int, competitor_id: int) -> None:
    """Facts that name it stay, and so do its rows of the days whose answers name it."""
    async with transaction(pool) as connection:
        deleted = await connection.fetchrow(
            SQL["delete_competitor"], reach.tenant_id, list(reach.workspace_ids), brand_id, competitor_id
        )
        _found(deleted, f"competitor {competitor_id}")
        await mark_brand(connection, reach.tenant_id, brand_id)


async def create_topic(pool: Pool, reach: Reach, brand_id: int, name: str) -> Record:
    """Conflict for a name in use."""
    with _named_conflicts():
        row = await pool.fetchrow(SQL["create_topic"], reach.tenant_id, list(reach.workspace_ids), brand_id, name)
    return _found(row, f"brand {brand_id}")


async def create_keyword(pool: Pool, reach: Reach, brand_id: int, text: str, topic_id: int | None) -> Record:
    """Conflict for a text in use; NotFound for a topic of another brand."""
    async with transaction(pool) as connection:
        await read_brand(connection, reach, brand_id)
        await _check_parents(connection, reach, brand_id, [], [topic_id])
        with _named_conflicts():
            row = await connection.fetchrow(SQL["create_keyword"], reach.tenant_id, brand_id, text, topic_id)
    return _found(row, f"brand {brand_id}")


async def list_of_brand(pool: Pool, reach: Reach, brand_id: int, what: str, after: int, limit: int) -> list[Record]:
    """`what`: competitors, topics, keywords or questions; by id, after the given one. NotFound for the brand."""
    await read_brand(pool, reach, brand_id)
    return await pool.fetch(SQL[f"list_{what}"], reach.tenant_id, brand_id, after, limit)


async def _check_parents(
    connection: Connection,
    reach: Reach,
    brand_id: int,
    keywords: Sequence[int | None],
    topics: Sequence[int | None],
    platforms: Sequence[str] = (),
) -> None:
    """Keywords and topics must be the brand's, platforms known: another's are as good as missing."""
    row = await connection.fetchrow(
        SQL["unknown_parents"],
        reach.tenant_id,
        brand_id,
        [given for given in keywords if given is not None],
        [given for given in topics if given is not None],
        list(platforms),
    )
    assert row is not None
    for what, missing in row.items():
        if missing:
            raise NotFound(f"no {what} {', '.join(map(str, missing[:10]))}")


# --- questions -----------------------------------------------------------------------------------------------


async def add_questions(
    pool: Pool, reach: Reach, brand_id: int, questions: Sequence[NewQuestion]
) -> tuple[list[Record], int]:
    """Add those whose text the brand has not yet; returns all of them in order of id, and how many are new.

    NotFound for the brand, or a keyword, topic or platform that is not there.
    """
    async with transaction(pool) as connection:
        await read_brand(connection, reach, brand_id)
        await _check_questions(connection, reach, brand_id, questions)
        texts = [question.text for question in questions]
        created = await connection.fetch(
            SQL["add_questions"],
            reach.tenant_id,
            brand_id,
            texts,
            [question.keyword_id for question in questions],
            [question.topic_id for question in questions],
        )
        await _add_platforms_and_versions(connection, reach, brand_id, questions, [row["id"] for row in created])
        rows = await connection.fetch(SQL["questions_by_text"], reach.tenant_id, brand_id, texts)
    return rows, len(created)


async def _check_questions(
    connection: Connection, reach: Reach, brand_id: int, questions: Sequence[NewQuestion]
) -> None:
    keywords = [question.keyword_id for question in questions]
    topics = [question.topic_id for question in questions]
    platforms = sorted({name for question in questions for name in question.only_platforms or ()})
    await _check_parents(connection, reach, brand_id, keywords, topics, platforms)


async def _add_platforms_and_versions(
    connection: Connection, reach: Reach, brand_id: int, questions: Sequence[NewQuestion], created: list[int]
) -> None:
    for question in questions:
        if question.only_platforms is not None:
            await connection.execute(
                SQL["set_only_platforms"], reach.tenant_id, brand_id, created, question.text, question.only_platforms
            )
    rows = await connection.fetch(SQL["questions_by_id"], reach.tenant_id, created)
    ids, texts = [row["id"] for row in rows], [row["text"] for row in rows]
    await connection.execute(SQL["set_versions"], reach.tenant_id, ids, texts, [text_hash(text) for text in texts])


def text_hash(text: str) -> str:
    """SHA-256, hex, of a question's text: equal texts are one version."""
    return hashlib.sha256(text.encode()).hexdigest()


async def read_question(where: Pool | Connection, reach: Reach, question_id: int) -> Record:
    """NotFound for one that is missing or out of reach."""
    row = await where.fetchrow(SQL["read_question"], reach.tenant_id, list(reach.workspace_ids), question_id)
    return _found(row, f"question {question_id}")


async def change_question(pool: Pool, reach: Reach, question_id: int, changes: Changes) -> Record:
    """Only the given ones; a changed text becomes a new version (an old text again: its old version).

    Its tasks of today are asked anew (1-dispatch §1.1).
    """
    async with transaction(pool) as connection:
        if "text" in changes:
            # First, as in the lock order: nobody creates or moves tasks of the old text meanwhile.
            await connection.execute(LOCKS["lock_tenant_requests"], reach.tenant_id)
        await connection.execute(SQL["lock_question"], reach.tenant_id, question_id)
        old = await read_question(connection, reach, question_id)
        new = {**dict(old), **changes}
        await _check_parents(
            connection, reach, old["brand_id"], [new["keyword_id"]], [new["topic_id"]], new["only_platforms"] or ()
        )
        if new["text"] != old["text"]:
            hashes = [text_hash(new["text"])]
            await connection.execute(SQL["set_versions"], reach.tenant_id, [question_id], [new["text"]], hashes)
            await ask_anew(connection, reach.tenant_id, question_id)
            await mark_wording(connection, reach.tenant_id, old["brand_id"], question_id)
        if (new["topic_id"], new["keyword_id"]) != (old["topic_id"], old["keyword_id"]):
            await mark_brand(connection, reach.tenant_id, old["brand_id"])
        # Last: a new text keeps runs of the question from being written, by those who hold its tasks and its mark.
        with _named_conflicts():
            await connection.execute(
                SQL["change_question"],
                reach.tenant_id,
                question_id,
                new["text"],
                new["keyword_id"],
                new["topic_id"],
                new["only_platforms"],
                new["active"],
            )
        return await read_question(connection, reach, question_id)
