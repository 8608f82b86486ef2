"""`giveway doctor` tries the store of raw answers as ingest uses it."""

from pathlib import Path

import pytest

from devstack.doctor import Check, run_checks
from tests.support.s3 import ACCESS_KEY, SECRET_KEY, S3Server, files_under


def environment(server: S3Server, url: str) -> dict[str, str]:
    return {
        "RAW_STORE_URL": url,
        "AWS_ENDPOINT": server.endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }


async def raw_check(environ: dict[str, str], folder: Path, patch: pytest.MonkeyPatch) -> Check:
    for name, value in environ.items():
        patch.setenv(name, value)
    [check] = [each for each in await run_checks(environ, folder) if each.name == "raw answers"]
    return check


async def test_a_store_that_takes_gives_and_deletes_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with S3Server(tmp_path / "s3") as server:
        assert (await raw_check(environment(server, "s3://answers/raw"), tmp_path, monkeypatch)).ok
        assert files_under(tmp_path / "s3") == []


async def test_a_bucket_that_is_not_there_is_missed_without_naming_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with S3Server(tmp_path / "s3") as server:
        check = await raw_check(environment(server, "s3://elsewhere/raw"), tmp_path, monkeypatch)
    assert not check.ok
    assert "keep-raw-answers-in-s3" in check.fix
    assert SECRET_KEY not in check.detail


async def test_a_url_that_names_no_store_is_said_to_be_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "RAW_STORE_URL" in (await raw_check({"RAW_STORE_URL": "ftp://answers"}, tmp_path, monkeypatch)).detail
