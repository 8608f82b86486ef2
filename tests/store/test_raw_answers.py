"""One contract for every store of raw answers: a folder, and S3."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from domain.errors import NotFound
from store.raw_answers import MAX_BYTES, RawAnswerRefused, RawAnswers
from tests.support.s3 import S3Server, files_under, store_on

KEY = "1/2/2026-04-20/0190b6a3-3f5e-7c11-9d4e-2f1a5b6c7d8e"


@pytest.fixture(params=["folder", "s3"])
async def raw(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RawAnswers]:
    if request.param == "folder":
        yield RawAnswers(f"file://{tmp_path}/raw")
        return
    async with S3Server(tmp_path / "s3") as server:
        yield store_on(server.endpoint, monkeypatch)


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", "答案：Acme 👩‍🚀\u200b".encode(), b"\x00\xff\xfe not text", b"x" * MAX_BYTES],
    ids=["empty", "small", "unicode", "binary", "largest"],
)
async def test_what_was_put_comes_back_byte_for_byte(raw: RawAnswers, body: bytes) -> None:
    await raw.put(KEY, body)
    assert await raw.get(KEY) == body


async def test_a_second_put_replaces_the_first_and_a_delete_removes_it(raw: RawAnswers) -> None:
    await raw.put(KEY, b"first and longer")
    await raw.put(KEY, b"second")
    assert await raw.get(KEY) == b"second"
    for _ in range(2):
        await raw.delete(KEY)
    with pytest.raises(NotFound):
        await raw.get(KEY)


@pytest.mark.parametrize("key", ["1/2/品牌 é", "1/2/100%25+#?&=~", "1/2/" + "k" * 240, "k"])
async def test_odd_keys_are_kept_apart(raw: RawAnswers, key: str) -> None:
    await raw.put(key, key.encode())
    await raw.put("1/2/other", b"other")
    assert await raw.get(key) == key.encode()


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", "a/../b", ".", "a\0b", "a\nb", "k" * 241, "/".join(["abc"] * 300)]
)
async def test_a_key_that_no_store_takes_is_refused(raw: RawAnswers, key: str) -> None:
    with pytest.raises(RawAnswerRefused):
        await raw.put(key, b"a")


async def test_a_body_over_the_bound_is_refused(raw: RawAnswers) -> None:
    with pytest.raises(RawAnswerRefused, match=f"at most {MAX_BYTES}"):
        await raw.put(KEY, b"x" * (MAX_BYTES + 1))


async def test_concurrent_puts_leave_one_whole_body_each(raw: RawAnswers) -> None:
    bodies = [bytes([65 + number]) * 50_000 for number in range(16)]
    await asyncio.gather(
        *(raw.put(KEY, body) for body in bodies), *(raw.put(f"1/2/{n}", b) for n, b in enumerate(bodies))
    )
    assert await raw.get(KEY) in bodies
    assert list(await asyncio.gather(*(raw.get(f"1/2/{number}") for number in range(16)))) == bodies


async def test_the_probe_leaves_nothing_behind(raw: RawAnswers, tmp_path: Path) -> None:
    await raw.probe()
    assert files_under(tmp_path) == []
