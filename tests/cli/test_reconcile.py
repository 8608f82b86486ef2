"""`giveway reconcile`, the real program: through Temporal or beside it."""

import json
import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def reconcile(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cli", "reconcile", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_direct_mends_the_database_without_temporal(database_url: str) -> None:
    done = reconcile("--direct", "--json", DATABASE_URL=database_url, TEMPORAL_ADDRESS="127.0.0.1:9")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert set(answer["fixed"].values()) == {0}
    assert answer["found"] == {"orphans_running": 0, "outbox_waiting": 0, "failed": []}


def test_without_temporal_it_says_what_can_be_done(database_url: str) -> None:
    done = reconcile("--wait", "2", DATABASE_URL=database_url, TEMPORAL_ADDRESS="127.0.0.1:9")
    assert done.returncode == 1
    assert "dispatch_unavailable" in done.stderr
    assert "--direct" in done.stderr
    assert "Traceback" not in done.stderr
