"""Field types shared by bodies, paths and queries: every one bounded, so that none reaches SQL out of range."""

from typing import Annotated, Final
from uuid import UUID

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StringConstraints

INT64_MAX: Final = 2**63 - 1

Id = Annotated[int, Field(strict=True, ge=1, le=INT64_MAX)]
PathId = Annotated[int, Path(ge=1, le=INT64_MAX)]
QueryId = Annotated[int | None, Query(ge=1, le=INT64_MAX)]
PathUuid = Annotated[UUID, Path()]

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Domain = Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True, min_length=1, max_length=253)]
QuestionText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4000)]
PlatformSlug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,49}$")]

Aliases = Annotated[list[Name], Field(max_length=50)]
Domains = Annotated[list[Domain], Field(max_length=50)]
Platforms = Annotated[list[PlatformSlug], Field(min_length=1, max_length=50)]
Flag = StrictBool


class Body(BaseModel):
    """Base of request bodies: an unknown field is refused, so that a typing error is not silently ignored."""

    model_config = ConfigDict(extra="forbid")
