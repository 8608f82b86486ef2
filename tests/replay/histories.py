"""The folder of recorded histories: reading them, and writing one without anything of the machine it ran on."""

import json
from pathlib import Path
from typing import Any, Final

from temporalio.client import WorkflowHandle, WorkflowHistory

FOLDER: Final = Path(__file__).parent
# Fields that name processes, hosts or builds; replay does not look at them.
SCRUBBED: Final = frozenset(
    {"identity", "stackTrace", "sourceStackTrace", "binaryChecksum", "buildId", "workerVersion"}
)


def files() -> list[Path]:
    """Every recorded history, by name."""
    return sorted(FOLDER.glob("*.json"))


def read(path: Path) -> WorkflowHistory:
    """One recorded history."""
    recorded = json.loads(path.read_text(encoding="utf-8"))
    return WorkflowHistory.from_json(recorded["workflow_id"], recorded["history"])


def workflow_type(path: Path) -> str:
    """The workflow that wrote it."""
    first = json.loads(path.read_text(encoding="utf-8"))["history"]["events"][0]
    return str(first["workflowExecutionStartedEventAttributes"]["workflowType"]["name"])


async def write(name: str, handle: WorkflowHandle[Any, Any]) -> Path:
    """Save the run's history as `{name}.json`."""
    history = scrub(json.loads((await handle.fetch_history()).to_json()))
    path = FOLDER / f"{name}.json"
    text = json.dumps({"workflow_id": handle.id, "history": history}, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def scrub(value: Any) -> Any:
    """The same without what names a machine; sticky queues, which do in their names, become one."""
    if isinstance(value, list):
        return [scrub(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("kind") == "TASK_QUEUE_KIND_STICKY":
        return {**value, "name": "sticky"}
    return {key: scrub(item) for key, item in value.items() if key not in SCRUBBED}
