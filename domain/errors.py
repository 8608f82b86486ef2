"""The error tree: one root, a leaf per case, a stable code and whether a retry helps.

The API turns a leaf into problem+json with its code as `type`; nobody matches message text.
"""

from typing import Any, ClassVar


class GivewayError(Exception):
    """Root of every error that a caller may meet. `message` says what happened and what to do next."""

    code: ClassVar[str] = "internal_error"
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, retry_after: int | None = None, **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after
        self.context = context


class NotFound(GivewayError):
    """Missing, or another tenant's: the two are indistinguishable."""

    code = "not_found"
    http_status = 404


class Gone(GivewayError):
    """An endpoint that was taken out of service; the message names what replaced it."""

    code = "gone"
    http_status = 410


class Unauthorized(GivewayError):
    """No valid token."""

    code = "unauthorized"
    http_status = 401


class Forbidden(GivewayError):
    """The token's role does not allow this."""

    code = "forbidden"
    http_status = 403


class InvalidInput(GivewayError):
    """Well-formed, but not acceptable."""

    code = "invalid_input"
    http_status = 422


class OverFuse(InvalidInput):
    """A setting above the installation's hard ceiling; `fuse` and `limit` in the context name it."""

    code = "over_fuse"


class UnknownName(InvalidInput):
    """A label names neither the brand nor a competitor; `known` in the context lists who there is."""

    code = "unknown_name"


class EmptyScope(InvalidInput):
    """A collect-now whose scope names no question on any platform."""

    code = "empty_scope"


class ScopeTooLarge(InvalidInput):
    """Over 500 tasks in one collect-now."""

    code = "scope_too_large"


class NoDesktopPlan(InvalidInput):
    """The brand has no active desktop plan, so no run mode to collect in."""

    code = "no_desktop_plan"


class Conflict(GivewayError):
    """The state does not allow this now."""

    code = "conflict"
    http_status = 409


class BatchOver(Conflict):
    """The batch is finished, cancelled, or being cancelled: it takes no more orders."""

    code = "batch_over"


class TooManyClients(Conflict):
    """The tenant has as many desktops as the setting `clients_per_tenant` allows; revoked ones do not count."""

    code = "too_many_clients"


class LeaseLost(Conflict):
    """The lease token is not the task's current one."""

    code = "lease_lost"


class NoSlot(Conflict):
    """The client, or the platform, has no free slot at this moment; the task stays queued."""

    code = "no_slot"


class StaleGeneration(Conflict):
    """The order is older than the task's interrupt generation; recorded, not applied."""

    code = "stale_generation"


class ProxyOver(Conflict):
    """The proxy call's deadline has passed; nobody waits for its answer any more."""

    code = "proxy_over"


class StaleVersion(GivewayError):
    """Somebody else has changed it since it was read: read it again, then decide."""

    code = "stale_version"
    http_status = 412


class VersionRequired(GivewayError):
    """A change must say which version it is a change of: the `If-Match` header."""

    code = "version_required"
    http_status = 428


class TooManyRequests(GivewayError):
    """A limit on active requests or requests per hour."""

    code = "too_many_requests"
    http_status = 429
    retryable = True


class PayloadTooLarge(GivewayError):
    """Body over the bound."""

    code = "payload_too_large"
    http_status = 413


class DispatchUnavailable(GivewayError):
    """Temporal or its workers do not answer in time; the same call is safe to repeat."""

    code = "dispatch_unavailable"
    http_status = 503
    retryable = True


class BrokerUnavailable(GivewayError):
    """RabbitMQ did not confirm in time; the same call is safe to repeat."""

    code = "broker_unavailable"
    http_status = 503
    retryable = True


class DatabaseUnavailable(GivewayError):
    """PostgreSQL does not answer; the same call is safe to repeat."""

    code = "database_unavailable"
    http_status = 503
    retryable = True


class FencedOut(GivewayError):
    """This resident's epoch is over: another holds the lease. Nothing was written."""

    code = "fenced_out"
    http_status = 500


class PortTaken(GivewayError):
    """Somebody else listens there."""

    code = "port_taken"
