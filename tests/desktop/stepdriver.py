"""A driver whose phases last until the test lets them go."""

import asyncio
from collections.abc import Mapping

from desktop.driver import Answer, RunContext
from domain.phases import Phase
from domain.protocol import TaskAvailable
from tests.desktop.waiting import Signal

ANSWER = '{"answer": "Take the Brennig 2."}'


class StepDriver:
    """Phases of held tasks wait for `let`; all others pass at once. `log` tells what began and what was stopped."""

    def __init__(self, raw: str = ANSWER) -> None:
        self.raw = raw
        self.hold_all = False
        self.log: list[tuple[str, str, str]] = []
        self.released: list[str] = []
        self._until: dict[str, Phase | None] = {}
        self._signal = Signal()

    def hold(self, task_id: str, phase: Phase) -> None:
        """Let the task run up to this phase and stay in it."""
        self._until[task_id] = phase
        self._signal.changed()

    def let(self, task_id: str) -> None:
        """Let the task run to its end."""
        self._until[task_id] = None
        self._signal.changed()

    async def inside(self, task_id: str, phase: Phase) -> None:
        """Wait until the phase has begun."""
        await self._signal.until(lambda: (task_id, phase, "began") in self.log, f"{phase} of {task_id}")

    async def stopped(self, task_id: str) -> None:
        """Wait until the attempt is released."""
        await self._signal.until(lambda: task_id in self.released, f"the release of {task_id}")

    async def run_phase(self, phase: Phase, task: TaskAvailable, context: RunContext) -> None:
        self._note(task, phase, "began")
        try:
            while self._holds(task.task_id, phase):
                await self._signal.until(lambda: not self._holds(task.task_id, phase))
        except asyncio.CancelledError:
            self._note(task, phase, "cancelled")
            raise
        if phase is Phase.WAITING:
            context.answer = Answer(self.raw, "application/json")
        self._note(task, phase, "ended")

    async def release(self, task: TaskAvailable, context: RunContext) -> None:
        self.released.append(task.task_id)
        self._signal.changed()

    def sessions(self) -> Mapping[str, str]:
        return {"deepseek": "healthy"}

    def phases(self, task_id: str, what: str = "began") -> list[str]:
        return [phase for task, phase, happened in self.log if task == task_id and happened == what]

    def _holds(self, task_id: str, phase: Phase) -> bool:
        return self._until.get(task_id) is phase

    def _note(self, task: TaskAvailable, phase: Phase, happened: str) -> None:
        self.log.append((task.task_id, phase, happened))
        self._signal.changed()
