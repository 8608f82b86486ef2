"""Why an object store does not take an object: its fault, or the store's (3-results §3.2).

obstore raises the same error for "this object is too large" and for "slow down", told apart only by their text. The
server itself says it in a status and an error code: the same put is sent once more by a signed URL, and those are read.
"""

import re
from datetime import timedelta
from enum import Enum, auto
from typing import Final

import httpx
import obstore
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

VALID: Final = timedelta(minutes=1)
TIMEOUTS: Final = {"timeout": httpx.Timeout(15, connect=5).as_dict()}

TOO_LARGE, URI_TOO_LONG, BAD_REQUEST = 413, 414, 400
# Error codes of S3, of its relatives, and of Azure.
REFUSALS: Final = frozenset(
    {
        "EntityTooLarge", "KeyTooLongError", "InvalidURI", "InvalidObjectName", "XMinioInvalidObjectName",
        "RequestBodyTooLarge", "InvalidUri", "OutOfRangeInput",
    }
)  # fmt: skip
# A bad request for now: the clock, the connection or the credentials are to be mended.
PASSING: Final = frozenset(
    {
        "RequestTimeout", "IncompleteBody", "BadDigest", "RequestTimeTooSkewed", "SlowDown", "ExpiredToken",
        "InvalidToken", "TokenRefreshRequired", "AuthorizationHeaderMalformed", "AuthorizationQueryParametersError",
        "InvalidBucketName", "IllegalLocationConstraintException",
    }
)  # fmt: skip
CODE: Final = re.compile(rb"<Code>\s*([A-Za-z]{1,64})\s*</Code>")


class Verdict(Enum):
    """What the server's answer to one put means."""

    REFUSED = auto()
    # A bad request of an unknown sort: whether other objects are taken decides.
    ODD = auto()
    # Taken now, or nothing that says anything about this object.
    WAIT = auto()


async def verdict_of_put(store: ObjectStore, key: str, body: bytes) -> Verdict:
    """Ask the server about this put. What it takes here counts as not stored: the caller's own put has its options."""
    if not isinstance(store, S3Store | GCSStore | AzureStore):
        return Verdict.WAIT
    try:
        url = await obstore.sign_async(store, "PUT", key, VALID)
        headers = {"x-ms-blob-type": "BlockBlob"} if isinstance(store, AzureStore) else {}
        response = await _send(httpx.Request("PUT", url, content=body, headers=headers, extensions=TIMEOUTS))
    except (BaseError, OSError, ValueError, httpx.HTTPError):
        return Verdict.WAIT
    return judge(response.status_code, _code(response))


async def _send(request: httpx.Request) -> httpx.Response:
    """Without a client, which would log the URL, and with it a signature that is good for a minute."""
    async with httpx.AsyncHTTPTransport() as transport:
        response = await transport.handle_async_request(request)
        await response.aread()
        return response


def judge(status: int, code: str | None) -> Verdict:
    """By HTTP status and the store's error code alone."""
    if status in (TOO_LARGE, URI_TOO_LONG):
        return Verdict.REFUSED
    if status != BAD_REQUEST or code in PASSING:
        return Verdict.WAIT
    return Verdict.REFUSED if code in REFUSALS else Verdict.ODD


def _code(response: httpx.Response) -> str | None:
    if code := response.headers.get("x-ms-error-code"):
        return str(code)
    found = CODE.search(response.content)
    return found[1].decode() if found else None
