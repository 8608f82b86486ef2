"""`temporal-dev.yml`: the file in the repository is valid, and a broken one says where it is broken."""

from datetime import timedelta
from pathlib import Path

import pytest

from devstack import config
from devstack.errors import ConfigInvalid

GOOD = config.DEFAULT_PATH.read_text()


def test_the_file_of_the_repository_says_what_the_workflows_need() -> None:
    loaded = config.load()
    assert loaded.namespace == "giveway"
    assert loaded.retention == timedelta(hours=72)
    assert loaded.search_attributes["GivewayGeneration"] == "Int"
    assert loaded.dynamic_config["matching.enableFairness"] is True
    assert loaded.sqlite_pragmas["journal_mode"] == "WAL"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (("port: 7233", "port: high"), "`port`"),
        (("port: 7233", "port: true"), "`port`"),
        (("retention: 72h", "retention: soon"), "`retention`"),
        (("GivewayTenant: Keyword", "GivewayTenant: Word"), "`search_attributes.GivewayTenant`"),
        (("namespace: giveway", "namespaces: giveway"), "`namespace`"),
        (("log_level: warn", "log_level: warn\nui: 1"), "`ui`"),
        (("matching.enableFairness: true", "matching.enableFairness: [1]"), "`dynamic_config.matching"),
        (("address:", "address"), "is not YAML"),
    ],
)
def test_a_broken_file_names_itself_and_the_key(tmp_path: Path, change: tuple[str, str], named: str) -> None:
    path = tmp_path / "temporal-dev.yml"
    path.write_text(GOOD.replace(*change, 1))
    with pytest.raises(ConfigInvalid) as failure:
        config.load(path)
    assert named in failure.value.message
    assert str(path) in failure.value.message


def test_a_missing_file_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        config.load(tmp_path / "none.yml")
