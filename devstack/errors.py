"""What can go wrong with the embedded stack: a stable code, what happened, and what to do next."""

from typing import ClassVar


class DevstackError(Exception):
    """Root of the embedded stack's errors. `code` is stable; `fix` says what to do next."""

    code: ClassVar[str] = "devstack_error"

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.message}\n  What to do: {self.fix}" if self.fix else self.message


class ConfigInvalid(DevstackError):
    """`temporal-dev.yml` is missing, is not YAML, or says something that has no meaning."""

    code = "config_invalid"


class PortTaken(DevstackError):
    """A port that was asked for by name is in use by another process."""

    code = "port_taken"


class PortInvalid(DevstackError):
    """A port variable holds something that is not a port."""

    code = "port_invalid"


class BinaryMissing(DevstackError):
    """A server's program is not installed."""

    code = "binary_missing"


class ServiceUnreachable(DevstackError):
    """A service given by address does not answer."""

    code = "service_unreachable"


class NoServiceAccount(DevstackError):
    """We are root, PostgreSQL refuses root, and no account is left to run it as."""

    code = "no_service_account"


class PartFailed(DevstackError):
    """A process ended before it was ready."""

    code = "part_failed"


class PartTimeout(DevstackError):
    """A process is running and was not ready within its limit."""

    code = "part_timeout"


class PartUnknown(DevstackError):
    """No such process is supervised."""

    code = "part_unknown"


class StackRunning(DevstackError):
    """Another process already runs the stack of this state folder."""

    code = "stack_running"
