"""HTTP calls that a page of a desktop makes for the server: the answer, and what becomes of it.

2-desktop §2.1 (`proxy_request`, `proxy_response`), 4-automation (executor). The request is the frame itself
(`domain.protocol.ProxyRequest`); its id names the call everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Self

# The server's own `error` of an answer: the desktop cannot be asked, since its hello did not name the feature.
PROXY_UNSUPPORTED: Final = "proxy_unsupported"

# Of a request: encoded as a frame. Far below the megabyte that a client must take.
MAX_REQUEST_BYTES: Final = 256 * 1024
MAX_TIMEOUT_MS: Final = 300_000
MAX_URL: Final = 8192
# Of an answer, whichever way it comes.
MAX_HEADERS: Final = 100
MAX_HEADER_NAME: Final = 200
MAX_HEADER_VALUE: Final = 8192
MAX_ERROR: Final = 64
MAX_MESSAGE: Final = 500
# A page's answer has none of them; a client that sends them sends too much.
LOGIN_HEADERS: Final = frozenset({"set-cookie", "set-cookie2", "cookie", "authorization", "proxy-authorization"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyAnswer:
    """What became of a call: an HTTP answer of any `status`, or the code of an `error` (ProxyError, PROXY_UNSUPPORTED).

    It comes from a page in somebody's browser: bounded, and not to be trusted.
    """

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    error: str | None = None
    message: str | None = None

    def without_login(self) -> Self:
        """The same without headers that hold somebody's login."""
        if not any(name.lower() in LOGIN_HEADERS for name in self.headers):
            return self
        kept = {name: value for name, value in self.headers.items() if name.lower() not in LOGIN_HEADERS}
        return replace(self, headers=kept)

    @property
    def fault(self) -> str | None:
        """What is wrong with its form; None of a sound one."""
        if (self.status is None) == (not self.error):
            return "an answer has either `status` or `error`"
        if self.error and (self.headers or self.body is not None):
            return "an `error` has neither `headers` nor `body`"
        return None


class AnswerOutcome(StrEnum):
    """What became of an answer."""

    TAKEN = "taken"
    # The call has its answer already; the first one counts.
    REPEATED = "repeated"
    # It came after the deadline.
    LATE = "late"
    # No such call, or another client's.
    UNKNOWN = "unknown"
