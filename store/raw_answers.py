"""Raw answers in object storage: a local folder by default, S3 and others by URL (3-results §3.1)."""

from datetime import date, timedelta
from typing import ClassVar, Final
from uuid import UUID

import obstore
from obstore.exceptions import BaseError, InvalidPathError, NotFoundError
from obstore.store import from_url

from domain.errors import GivewayError, NotFound

MAX_BYTES: Final = 4 * 1024 * 1024
"""The API takes 1 MB; JSON escapes and re-encodings may make it larger, but never this large."""


class RawStoreUnavailable(GivewayError):
    """The object store does not take anything now (down, full, no permission): wait, nothing may be acknowledged."""

    code: ClassVar[str] = "raw_store_unavailable"
    http_status: ClassVar[int] = 503
    retryable: ClassVar[bool] = True


class RawAnswerRefused(GivewayError):
    """This one object can't be stored, however often it is tried."""

    code: ClassVar[str] = "raw_answer_refused"
    http_status: ClassVar[int] = 422


def raw_answer_key(tenant_id: int, brand_id: int, business_date: date, attempt_id: UUID) -> str:
    """`{tenant}/{brand}/{business_date}/{attempt_id}`: storing an attempt's answer again overwrites it with itself."""
    return f"{tenant_id}/{brand_id}/{business_date.isoformat()}/{attempt_id}"


class RawAnswers:
    """Puts and gets raw bodies by key. Tries are short, for the caller waits and repeats."""

    def __init__(self, url: str, *, max_bytes: int = MAX_BYTES) -> None:
        """`url`: file:///folder (created if missing), s3://bucket/prefix, gs:// or az://; credentials come from the
        environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT …). A body over `max_bytes` is refused."""
        self._max_bytes = max_bytes
        if url.startswith("file:"):
            self._store = from_url(url, mkdir=True)
        elif url.startswith("memory:"):
            self._store = from_url(url)
        else:
            self._store = from_url(
                url,
                # Plain http only where AWS_ENDPOINT says so: a store inside the cluster.
                client_options={
                    "timeout": timedelta(seconds=15),
                    "connect_timeout": timedelta(seconds=5),
                    "allow_http": True,
                },
                retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=10)},
            )

    async def put(self, key: str, body: bytes) -> None:
        """Store the body; RawAnswerRefused when it never will be, RawStoreUnavailable when the store doesn't answer."""
        if len(body) > self._max_bytes:
            raise RawAnswerRefused(f"the answer has {len(body)} bytes; at most {self._max_bytes} are stored")
        try:
            await obstore.put_async(self._store, key, body)
        except (ValueError, InvalidPathError) as error:
            raise RawAnswerRefused(f"the object store does not take the key {key!r}") from error
        except (BaseError, OSError) as error:
            raise RawStoreUnavailable(f"the object store failed on {key}: {_first_line(error)}") from error

    async def get(self, key: str) -> bytes:
        """The body; NotFound when there is none."""
        try:
            found = await obstore.get_async(self._store, key)
            return bytes(await found.bytes_async())
        except (FileNotFoundError, NotFoundError) as error:
            raise NotFound(f"no raw answer at {key}") from error
        except (BaseError, OSError) as error:
            raise RawStoreUnavailable(f"the object store failed on {key}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
