"""A desktop's registration: what a person is told when the server refuses it."""

import asyncio
from pathlib import Path

import pytest

from desktop.program import Fleet, NotRegistered, run_desktops
from tests.desktop.stepdriver import StepDriver

REFUSALS = [
    ("404 Not Found", '{"code": "not_found", "detail": "no workspace 7"}', "no workspace 7 (404 not_found)"),
    ("502 Bad Gateway", "<html>no upstream</html>", "it answered 502"),
]


@pytest.mark.parametrize(("status", "body", "told"), REFUSALS)
async def test_a_refused_registration_says_what_the_server_said(
    status: str, body: str, told: str, tmp_path: Path
) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(f"{head}{body}".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        fleet = Fleet(address, tmp_path, 1, StepDriver(), workspace_id=7, user_token="t")
        with pytest.raises(NotRegistered) as refused:
            await run_desktops(fleet, asyncio.Event())
    assert refused.value.message == f"the server did not register desktop-1: {told}"
