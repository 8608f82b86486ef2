"""problem+json (RFC 9457) for every error; types are stable URNs made of the error's code (6-operations, Security)."""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import asyncpg
import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from domain.errors import DatabaseUnavailable, GivewayError, InvalidInput, Unauthorized

log = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/problem+json"
URN: Final = "urn:giveway:problem:"
RETRY_SECONDS: Final = 2
MAX_FIELD_PROBLEMS: Final = 50
CODES: Final[Mapping[int, str]] = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "payload_too_large",
    415: "unsupported_media_type",
}


class FieldProblem(BaseModel):
    """One field that was refused. The value is not repeated."""

    loc: list[str | int]
    code: str
    message: str


class Problem(BaseModel):
    """The body of every error answer. `code` is stable; `detail` is for people."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": True})

    type: str = Field(examples=["urn:giveway:problem:not_found"])
    code: str
    title: str
    status: int
    detail: str
    # Seconds; the same as the Retry-After header.
    retry_after: int | None = None
    errors: list[FieldProblem] | None = None


def problem_response(
    status: int,
    code: str,
    detail: str,
    *,
    retry_after: int | None = None,
    errors: Sequence[FieldProblem] | None = None,
    headers: Mapping[str, str] | None = None,
    context: Mapping[str, Any] | None = None,
) -> Response:
    """The answer; `retry_after` in seconds, `context` as members of its own (RFC 9457, extensions)."""
    problem = Problem(
        type=URN + code,
        code=code,
        title=_title(status),
        status=status,
        detail=printable(detail),
        retry_after=retry_after,
        errors=list(errors) if errors is not None else None,
    )
    sent = dict(headers or {})
    if retry_after is not None:
        sent["Retry-After"] = str(retry_after)
    if status == HTTPStatus.UNAUTHORIZED:
        sent.setdefault("WWW-Authenticate", "Bearer")
    body = orjson.dumps({**(context or {}), **problem.model_dump(exclude_none=True)})
    return Response(body, status_code=status, headers=sent, media_type=MEDIA_TYPE)


def error_response(error: GivewayError) -> Response:
    """A leaf of the error tree as an answer; a server-side failure tells nothing of its inside."""
    if error.http_status >= 500 and not error.retryable:
        log.error("unexpected error %s: %s", error.code, error.message)
        return problem_response(500, "internal_error", "something went wrong here; it has been recorded")
    retry_after = error.retry_after
    if retry_after is None and error.retryable:
        retry_after = RETRY_SECONDS
    return problem_response(
        error.http_status, error.code, error.message, retry_after=retry_after, context=error.context
    )


def printable(text: str) -> str:
    """The text without lone surrogates and NUL, which JSON or a terminal can't carry."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def install_problem_handlers(app: FastAPI) -> None:
    """Every exception of the app answers problem+json."""
    app.add_exception_handler(GivewayError, _on_giveway_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(asyncpg.DataError, _on_data_error)
    for kind in (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.OperatorInterventionError, OSError):
        app.add_exception_handler(kind, _on_database_away)
    app.add_exception_handler(asyncpg.InsufficientResourcesError, _on_database_away)
    # What asyncpg says of a connection that the server ended just as a statement was sent.
    app.add_exception_handler(asyncpg.InternalClientError, _on_database_away)
    # A deadlock that this transaction lost: nothing of it was kept, and the same call will do.
    app.add_exception_handler(asyncpg.TransactionRollbackError, _on_collision)
    app.add_exception_handler(Exception, _on_anything)


async def _on_giveway_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, GivewayError)
    return error_response(error)


async def _on_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    given = error.errors()[:MAX_FIELD_PROBLEMS]
    return invalid_fields([_field_problem(item) for item in given])


def invalid_fields(errors: Sequence[FieldProblem]) -> Response:
    """422 with the fields that were refused."""
    where = ".".join(str(part) for part in errors[0].loc) if errors else "the request"
    detail = f"{where}: {errors[0].message}" if errors else "the request is not valid"
    return problem_response(422, InvalidInput.code, detail, errors=errors)


def _field_problem(item: Mapping[str, Any]) -> FieldProblem:
    """Neither `input` nor `ctx` is repeated: they may hold a secret, or what JSON can't express."""
    loc = [part if isinstance(part, int) else printable(str(part))[:100] for part in item["loc"]]
    return FieldProblem(loc=loc, code=item["type"], message=printable(item["msg"])[:300])


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = CODES.get(error.status_code, f"http_{error.status_code}")
    return problem_response(error.status_code, code, str(error.detail), headers=error.headers)


async def _on_data_error(request: Request, error: Exception) -> Response:
    # The fields are bounded before they come here; this is the net under them.
    log.warning("the database refused a value: %s", error)
    return problem_response(422, InvalidInput.code, "a value is out of range")


async def _on_database_away(request: Request, error: Exception) -> Response:
    log.warning("database unavailable: %r", error)
    return error_response(DatabaseUnavailable("the database does not answer; try again"))


async def _on_collision(request: Request, error: Exception) -> Response:
    log.warning("transaction rolled back: %r", error)
    return error_response(DatabaseUnavailable("the change met another one and was not made; try again"))


async def _on_anything(request: Request, error: Exception) -> Response:
    return problem_response(500, "internal_error", "something went wrong here; it has been recorded")


def unauthorized(detail: str) -> Unauthorized:
    """One wording for every way in which a token can be wrong: the reason goes to the log, not to the caller."""
    log.info("token refused: %s", detail)
    return Unauthorized("the bearer token is missing, expired or not acceptable; sign in again")
