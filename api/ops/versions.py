"""Optimistic concurrency: a version as ETag, and `If-Match` on every change."""

import re
from typing import Annotated, Any, Final

from fastapi import Depends, Header, Response

from api.auth import Principal
from domain.errors import StaleVersion, VersionRequired

# What every answer with a version has, for the OpenAPI document.
VERSIONED: Final[dict[int | str, dict[str, Any]]] = {
    200: {"headers": {"ETag": {"description": "Its version, for If-Match", "schema": {"type": "string"}}}}
}
_ETAG: Final = re.compile(r'"([0-9]{1,18})"', re.ASCII)


def show_version(response: Response, version: int) -> None:
    """The version as the answer's ETag."""
    response.headers["ETag"] = f'"{version}"'


async def expected_version(
    if_match: Annotated[
        str | None, Header(max_length=100, description="The ETag that was read; 428 without it")
    ] = None,
) -> int:
    """The version that the caller changes. VersionRequired without one; StaleVersion for one that is none of ours."""
    if if_match is None:
        raise VersionRequired("send the ETag that you read as If-Match, so that nobody's change is overwritten")
    found = _ETAG.fullmatch(if_match.strip())
    if found is None:
        raise StaleVersion("If-Match is not an ETag of ours; read it again")
    return int(found[1])


Expected = Annotated[int, Depends(expected_version)]


def actor_of(principal: Principal) -> str:
    """Who is named in the audit."""
    return f"user:{principal.user_id}"
