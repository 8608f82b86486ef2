"""Results kept on disk until the server has taken them: one file per attempt (2-desktop §2.4)."""

import asyncio
import logging
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field, ValidationError

from desktop.driver import Answer, DriverFailure
from desktop.files import private_folder, write_whole
from domain.desktop_calls import ResultCall
from domain.phases import Phase
from domain.protocol import HeldAttempt, TaskAvailable

log = logging.getLogger(__name__)

# The server's bound on a body; what is over it is never sent.
MAX_BODY_BYTES: Final = 1_000_000
TOO_LARGE: Final = "result_too_large"
# With less room a result might not be kept.
LEAST_ROOM: Final = 4 * MAX_BODY_BYTES


class KeptResult(BaseModel):
    """One attempt's result as it lies on disk: the call to repeat, its lease token included."""

    task_id: str
    call: ResultCall
    kept_at: datetime = Field(default_factory=lambda: datetime.now(UTC))

    @property
    def attempt_id(self) -> str:
        return str(self.call.attempt_id)

    def held(self) -> HeldAttempt:
        """As hello and heartbeats list it: its lease is extended until it is accepted."""
        return HeldAttempt(task_id=self.task_id, attempt_id=self.attempt_id, phase=Phase.POSTING, state="posting")

    def failed_with(self, code: str) -> "KeptResult":
        """The same attempt as a failure without a body."""
        call = self.call.model_copy(update={"outcome": "failed", "raw": None, "content_type": None, "error": code})
        return self.model_copy(update={"call": call})


def succeeded(
    task: TaskAvailable, answer: Answer, phase_times: dict[Phase, float], longest_interval: float | None = None
) -> KeptResult:
    """The result of an answered question; over 1 MB it becomes a failure `result_too_large`.

    `longest_interval`: between two safe points, in milliseconds.
    """
    call = ResultCall.model_validate(
        {
            **_identity(task, phase_times, longest_interval),
            "outcome": "succeeded",
            "raw": answer.raw,
            "content_type": answer.content_type,
            "model": answer.model,
            "request_id": answer.request_id,
        }
    )
    result = KeptResult(task_id=task.task_id, call=call)
    if len(call.model_dump_json().encode()) > MAX_BODY_BYTES:
        return result.failed_with(TOO_LARGE)
    return result


def failed(
    task: TaskAvailable, failure: DriverFailure, phase_times: dict[Phase, float], longest_interval: float | None = None
) -> KeptResult:
    """The result of a question that could not be answered; `error` is the failure's code."""
    error = failure.code if not failure.detail else f"{failure.code}: {failure.detail}"
    values = {**_identity(task, phase_times, longest_interval), "outcome": "failed", "error": error[:500]}
    return KeptResult(task_id=task.task_id, call=ResultCall.model_validate(values))


def _identity(
    task: TaskAvailable, phase_times: dict[Phase, float], longest_interval: float | None
) -> dict[str, object]:
    return {
        "lease_token": task.lease_token,
        "attempt_id": task.attempt_id,
        "phase_times": phase_times,
        "safe_point_interval_ms": longest_interval,
    }


class ResultStore:
    """The folder of results not yet taken. Writing and reading happen in a thread: fsync can take long."""

    def __init__(self, folder: Path, least_room: int = LEAST_ROOM) -> None:
        self._folder = folder
        self._least_room = least_room

    def has_room(self) -> bool:
        """Whether the disk has room for a few results."""
        try:
            return shutil.disk_usage(self._folder.parent).free >= self._least_room
        except OSError:
            return False

    async def try_out(self) -> None:
        """Write what a result needs to be kept, and remove it again. Raises OSError."""
        await asyncio.to_thread(self._try_out)

    async def save(self, result: KeptResult) -> None:
        """Keep it; after the return it survives a crash. Raises OSError."""
        await asyncio.to_thread(self._save, result)

    async def discard(self, attempt_id: str) -> None:
        """The server has taken or refused it for good."""
        await asyncio.to_thread(self._path(attempt_id).unlink, missing_ok=True)

    async def load(self) -> list[KeptResult]:
        """What an earlier run has left, oldest first. A file that cannot be read is set aside as `.bad`."""
        return await asyncio.to_thread(self._load)

    def _path(self, attempt_id: str) -> Path:
        return self._folder / f"{attempt_id}.json"

    def _save(self, result: KeptResult) -> None:
        private_folder(self._folder)
        write_whole(self._path(result.attempt_id), result.model_dump_json().encode())

    def _try_out(self) -> None:
        private_folder(self._folder)
        trial = self._folder / "trial"
        write_whole(trial, b"trial")
        trial.unlink()

    def _load(self) -> list[KeptResult]:
        kept = [self._read(path) for path in sorted(self._folder.glob("*.json"))]
        return sorted((one for one in kept if one is not None), key=lambda one: one.kept_at)

    def _read(self, path: Path) -> KeptResult | None:
        try:
            return KeptResult.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            log.error("result %s cannot be read (%s): set aside as .bad", path.name, type(error).__name__)
            path.replace(path.with_suffix(".bad"))
            return None
