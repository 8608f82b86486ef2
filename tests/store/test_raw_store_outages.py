"""A broken object is told from a broken store: by error class, HTTP status and error code, never by message text."""

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from store.object_refusals import Verdict, judge
from store.raw_answers import RawAnswerRefused, RawAnswers, RawStoreMisconfigured, RawStoreUnavailable
from tests.support.result_queues import until
from tests.support.s3 import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server, ScriptedStore, files_under, store_on
from tests.support.small_disk import SmallDisk, small_disk

KEY = "1/2/2026-04-20/a"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[S3Server]:
    async with S3Server(tmp_path / "s3") as running:
        yield running


async def test_a_server_that_is_stopped_is_an_outage_and_heals(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = store_on(server.endpoint, monkeypatch)
    await raw.put(KEY, b"a")
    await server.stop()
    for step in (raw.put(KEY, b"b"), raw.get(KEY), raw.delete(KEY), raw.probe()):
        with pytest.raises(RawStoreUnavailable):
            await step
    await server.start()
    assert await raw.get(KEY) == b"a"
    await raw.put(KEY, b"b")


async def test_a_missing_bucket_is_an_outage_not_a_missing_object(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = store_on(server.endpoint, monkeypatch, url="s3://elsewhere/raw")
    for step in (raw.put(KEY, b"a"), raw.get(KEY)):
        with pytest.raises(RawStoreUnavailable):
            await step
    (server.folder / "elsewhere").mkdir()
    await until(lambda: takes(raw))


async def takes(raw: RawAnswers) -> bool:
    """Whether the store takes a body; the server may need a moment to see its folder."""
    try:
        await raw.put(KEY, b"a")
    except RawStoreUnavailable:
        return False
    return True


async def test_a_wrong_secret_is_an_outage_and_in_no_message(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    raw = store_on(server.endpoint, monkeypatch, secret="wrong-secret")
    for step in (raw.put(KEY, b"a"), raw.get(KEY)):
        with pytest.raises(RawStoreUnavailable) as caught:
            await step
        assert not any(
            word in str(caught.value) + caplog.text for word in ("wrong-secret", ACCESS_KEY, "X-Amz-Signature")
        )


async def test_a_key_that_the_server_finds_too_long_is_refused(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = "/".join(["p" * 200] * 5)
    with pytest.raises(RawAnswerRefused):
        await store_on(server.endpoint, monkeypatch, url=f"s3://{BUCKET}/{prefix}").put("1/" + "k" * 200, b"a")


@pytest.mark.parametrize(("status", "code"), [(400, "EntityTooLarge"), (413, ""), (400, "MetadataTooLarge")])
async def test_an_object_that_the_server_refuses_is_the_objects_fault(
    monkeypatch: pytest.MonkeyPatch, status: int, code: str
) -> None:
    async with ScriptedStore(lambda method, path, length: (status, code) if length > 100 else (200, "")) as scripted:
        raw = store_on(scripted.endpoint, monkeypatch)
        with pytest.raises(RawAnswerRefused):
            await raw.put(KEY, b"a" * 101)
        await raw.put(KEY, b"a")


@pytest.mark.parametrize(
    ("status", "code"),
    [(503, "SlowDown"), (500, "InternalError"), (429, ""), (403, "AccessDenied"), (401, ""), (400, "ExpiredToken"),
     (400, "RequestTimeout"), (400, "SomethingNew"), (404, "NoSuchBucket"), (507, "")],
)  # fmt: skip
async def test_a_store_that_takes_nothing_is_an_outage(monkeypatch: pytest.MonkeyPatch, status: int, code: str) -> None:
    async with ScriptedStore(lambda method, path, length: (status, code)) as scripted:
        with pytest.raises(RawStoreUnavailable) as caught:
            await store_on(scripted.endpoint, monkeypatch).put(KEY, b"a")
    assert not any(word in str(caught.value) for word in (ACCESS_KEY, SECRET_KEY))


async def test_one_slow_answer_is_repeated_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([(503, "SlowDown"), (500, "InternalError"), (200, "")])
    async with ScriptedStore(lambda method, path, length: next(answers)) as scripted:
        await store_on(scripted.endpoint, monkeypatch).put(KEY, b"a")
        assert scripted.requests == 3


@pytest.mark.parametrize(
    ("status", "code", "verdict"),
    [
        (200, None, Verdict.WAIT),
        (413, None, Verdict.REFUSED),
        (414, None, Verdict.REFUSED),
        (400, "KeyTooLongError", Verdict.REFUSED),
        (400, "RequestBodyTooLarge", Verdict.REFUSED),
        (400, "InvalidToken", Verdict.WAIT),
        (400, None, Verdict.ODD),
        (403, "EntityTooLarge", Verdict.WAIT),
        (503, "SlowDown", Verdict.WAIT),
    ],
)
def test_the_verdict_is_read_from_status_and_code(status: int, code: str | None, verdict: Verdict) -> None:
    assert judge(status, code) is verdict


async def test_a_folder_that_is_gone_is_an_outage_not_missing_objects(tmp_path: Path) -> None:
    raw = RawAnswers(f"file://{tmp_path}/raw")
    (tmp_path / "raw").rmdir()
    with pytest.raises(RawStoreUnavailable):
        await raw.get(KEY)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as mounted:
        yield mounted


async def test_a_full_disk_is_an_outage_leaves_no_half_a_body_and_heals(disk: SmallDisk) -> None:
    raw = RawAnswers(disk.folder.as_uri())
    await raw.put(KEY, b"first")
    disk.fill()
    with pytest.raises(RawStoreUnavailable):
        await raw.put(KEY, b"a" * 10_000)
    assert await raw.get(KEY) == b"first"
    disk.empty()
    await raw.put(KEY, b"a" * 10_000)
    assert files_under(disk.folder) == [disk.folder / KEY]


async def test_a_read_only_disk_is_an_outage_and_heals(disk: SmallDisk) -> None:
    raw = RawAnswers(disk.folder.as_uri())
    disk.read_only()
    with pytest.raises(RawStoreUnavailable):
        await raw.put(KEY, b"a")
    disk.read_only(False)
    await raw.put(KEY, b"a")


@pytest.mark.parametrize("url", ["ftp://answers", "file:///proc/none/raw", "no url at all"])
def test_a_url_that_names_no_store_says_so(url: str) -> None:
    with pytest.raises(RawStoreMisconfigured, match="RAW_STORE_URL"):
        RawAnswers(url)
