"""The hub's settings against what the system gives the process."""

import resource

import pytest

from server import OTHER_FILES, hub_limits
from settings import Settings


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many open files the system allows."""
    allowed = [resource.RLIM_INFINITY]
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (allowed[0], allowed[0]))
    return allowed


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("connections", "pending"), [(12_000, 3_000), (1_000, 3_000), (1, 1)])
def test_with_files_enough_the_settings_are_the_bounds(connections: int, pending: int) -> None:
    limits = hub_limits(Settings(_env_file=None, hub_max_connections=connections, hub_max_pending=pending))
    assert (limits.max_connections, limits.max_pending) == (connections, pending)


@pytest.mark.parametrize("allowed", [100, 300, 1024, 4096, 14_000])
def test_with_fewer_files_there_are_as_many_sockets_as_fit(files: list[int], allowed: int) -> None:
    files[0] = allowed
    limits = hub_limits(Settings(_env_file=None))
    assert limits.max_connections >= 1
    assert limits.max_pending >= 1
    assert limits.max_connections + limits.max_pending <= max(2, allowed - OTHER_FILES)
    if allowed > 1000:
        assert limits.max_connections > limits.max_pending > 100
