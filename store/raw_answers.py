"""Raw answers in object storage: a local folder by default, S3 and others by URL (3-results §3.1)."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any, ClassVar, Final
from uuid import UUID, uuid4

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, ObjectStore, from_url

from domain.errors import GivewayError, NotFound
from store.object_refusals import Verdict, verdict_of_put

MAX_BYTES: Final = 4 * 1024 * 1024
"""The API takes 1 MB; JSON escapes and re-encodings may make it larger, but never this large."""

# S3's bound of a key and a file system's of a name, less room for the store's prefix and a suffix while it is written.
MAX_KEY_BYTES: Final = 768
MAX_NAME_BYTES: Final = 240
PROBES: Final = ".probe"

CONNECT_TIMEOUT: Final = timedelta(seconds=5)
REQUEST_TIMEOUT: Final = timedelta(seconds=15)
# Short, for the caller waits and repeats.
RETRIES: Final[dict[str, Any]] = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}


class RawStoreUnavailable(GivewayError):
    """The object store takes or gives nothing now (down, full, no bucket, no permission): wait, acknowledge nothing."""

    code: ClassVar[str] = "raw_store_unavailable"
    http_status: ClassVar[int] = 503
    retryable: ClassVar[bool] = True


class RawStoreMisconfigured(GivewayError):
    """RAW_STORE_URL names no store that can be opened."""

    code: ClassVar[str] = "raw_store_misconfigured"


class RawAnswerRefused(GivewayError):
    """This one object can't be stored, however often it is tried."""

    code: ClassVar[str] = "raw_answer_refused"
    http_status: ClassVar[int] = 422


def raw_answer_key(tenant_id: int, brand_id: int, business_date: date, attempt_id: UUID) -> str:
    """`{tenant}/{brand}/{business_date}/{attempt_id}`: storing an attempt's answer again overwrites it with itself."""
    return f"{tenant_id}/{brand_id}/{business_date.isoformat()}/{attempt_id}"


class RawAnswers:
    """Puts and gets raw bodies by key. A put is whole or not there at all, and repeating it is safe.

    A folder's put is a write beside and a rename; it is not forced to the disk, so that a power cut may lose the bodies
    of the last seconds (their facts are in the database all the same).
    """

    def __init__(self, url: str, *, max_bytes: int = MAX_BYTES, create: bool = True) -> None:
        """`url`: file:///folder (created if missing, unless `create` is False), s3://bucket/prefix, gs:// or az://.

        Credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT …). A body over `max_bytes` is refused.
        Raises RawStoreMisconfigured.
        """
        self._max_bytes = max_bytes
        self._store = _open(url, create)

    async def put(self, key: str, body: bytes) -> None:
        """Store the body; RawAnswerRefused when it never will be, RawStoreUnavailable when the store doesn't answer."""
        if len(body) > self._max_bytes:
            raise RawAnswerRefused(f"the answer has {len(body)} bytes; at most {self._max_bytes} are stored")
        _check(key)
        try:
            await obstore.put_async(self._store, key, body)
        except (BaseError, OSError) as error:
            await self._raise_if_refused(key, body)
            raise _unavailable(key, error) from error

    async def get(self, key: str) -> bytes:
        """The body; NotFound when the store is there and has none."""
        _check(key)
        try:
            found = await obstore.get_async(self._store, key)
            return bytes(await found.bytes_async())
        except FileNotFoundError as error:
            await self._require_container(key)
            raise NotFound(f"no raw answer at {key}") from error
        except (BaseError, OSError) as error:
            raise _unavailable(key, error) from error

    async def delete(self, key: str) -> None:
        """Remove the body; what is not there needs no removal."""
        _check(key)
        try:
            await obstore.delete_async(self._store, key)
        except FileNotFoundError:
            await self._require_container(key)
        except (BaseError, OSError) as error:
            raise _unavailable(key, error) from error

    async def probe(self) -> None:
        """Put, get and delete a small object; RawStoreUnavailable with the reason when one of them fails."""
        key, body = f"{PROBES}/{uuid4()}", b"giveway"
        await self.put(key, body)
        if await self.get(key) != body:
            raise RawStoreUnavailable("the object store gives back something else than it took")
        await self.delete(key)

    async def _raise_if_refused(self, key: str, body: bytes) -> None:
        """The library has one error for a refused object and a broken store, so the server is asked for its status."""
        verdict = await verdict_of_put(self._store, key, body)
        if verdict is Verdict.REFUSED or (verdict is Verdict.ODD and await self._takes_others()):
            raise RawAnswerRefused(f"the object store refuses {key} ({len(body)} bytes)")

    async def _takes_others(self) -> bool:
        try:
            await obstore.put_async(self._store, f"{PROBES}/is-it-the-object", b"giveway")
        except (BaseError, OSError):
            return False
        return True

    async def _require_container(self, key: str) -> None:
        """A missing bucket or folder looks like a missing object, but is an outage: every object would be missing."""
        if isinstance(self._store, LocalStore):
            if not _is_folder(self._store.prefix):
                raise RawStoreUnavailable(f"the folder of raw answers is not there: {self._store.prefix}")
            return
        try:
            await obstore.list_with_delimiter_async(self._store, PROBES)
        except (BaseError, OSError) as error:
            raise _unavailable(key, error) from error


def _open(url: str, create: bool) -> ObjectStore:
    try:
        if url.startswith("file:"):
            return from_url(url, mkdir=create)
        if url.startswith("memory:"):
            return from_url(url)
        # Plain http only where AWS_ENDPOINT says so: a store inside the cluster.
        options: dict[str, Any] = {"timeout": REQUEST_TIMEOUT, "connect_timeout": CONNECT_TIMEOUT, "allow_http": True}
        return from_url(url, client_options=options, retry_config=RETRIES)  # type: ignore[call-overload, no-any-return]
    except (BaseError, OSError, ValueError) as error:
        raise RawStoreMisconfigured(f"RAW_STORE_URL can't be opened: {_first_line(error)}") from error


def _is_folder(path: Path | str | None) -> bool:
    return path is not None and Path(path).is_dir()


def _check(key: str) -> None:
    """What every store takes, so that a key is as good in one as in another."""
    names = key.split("/")
    sound = all(name not in ("", ".", "..") and name.isprintable() for name in names)
    if not sound or len(key.encode()) > MAX_KEY_BYTES or max(len(name.encode()) for name in names) > MAX_NAME_BYTES:
        raise RawAnswerRefused(f"no object store takes the key {key[:100]!r}")


def _unavailable(key: str, error: Exception) -> RawStoreUnavailable:
    return RawStoreUnavailable(f"the object store failed on {key}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    """Without the server's own words after it: they may repeat the access key."""
    return str(error).partition("\n")[0].partition("<")[0].rstrip(" :")
