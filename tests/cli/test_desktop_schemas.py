"""`giveway desktop schemas`: writes the files, and tells a client's CI when they differ."""

from pathlib import Path

from typer.testing import CliRunner, Result

from cli import app


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["desktop", "schemas", *map(str, arguments)])


def test_check_passes_on_what_write_wrote_and_fails_on_anything_else(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "schemas"
    assert run("--check", folder).exit_code == 1
    assert run("--write", folder).exit_code == 0
    assert run("--check", folder).exit_code == 0
    (folder / "client-frames.json").write_text("{}", encoding="utf-8")
    differs = run("--check", folder)
    assert differs.exit_code == 1
    assert "client-frames.json differs" in differs.output
    assert "rest.json" not in differs.output


def test_either_write_or_check_is_needed(tmp_path: Path) -> None:
    assert run().exit_code == 2
    assert run("--write", tmp_path, "--check", tmp_path).exit_code == 2
