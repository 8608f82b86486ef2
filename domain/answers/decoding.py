"""Bytes to text: the encodings that JSON allows, and what captures leave around a body (3-results §3.3)."""

import codecs
import re
import zlib
from typing import Final

MAX_INFLATED: Final = 8_000_000
"""Bytes read of a compressed body; more is no answer."""

_CHARSET: Final = re.compile(rb"charset\s*=\s*[\"']?\s*(gb2312|gbk|gb18030|big5|shift_jis|euc-jp|euc-kr)", re.I)
_CHUNK_SIZE: Final = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]{0,40})?\r?\n")
_CHUNKED: Final = re.compile(rb"[0-9a-fA-F]{1,8}[ \t]*(?:;[^\r\n]{0,40})?\r?\n[ \t]*(?:[{\[<:]|data:|event:|id:)")
_HTTP_HEAD: Final = re.compile(rb"HTTP/[0-9.]{1,3} [0-9]{3}")
_FAULTS: Final = 100  # one fault in so many characters: it is in no UTF
_BEGINNING: Final = re.compile(r"\s*(?:[{\[<]|data:|event:|id:)")
_GUARD: Final = re.compile(r"(?:\)\]\}'?,?|(?:while|for)\s*\((?:1|;;)\);)\s*")  # against inclusion as a script
_BOMS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def decode(body: bytes) -> str:
    """The body's text. Never raises: what no encoding explains becomes U+FFFD."""
    body = _dechunked(_without_head(_inflated(body)))
    text = body.decode(_encoding(body), "replace")
    if text.count("\ufffd") * _FAULTS > len(text):
        text = _in_chinese(body) or text
    guard = _GUARD.match(text)
    return text[guard.end() :] if guard else text


def _in_chinese(body: bytes) -> str | None:
    """A body that a Windows program in China saved as its own text; only one that has a body's beginning then."""
    try:
        text = body.decode("gb18030")
    except UnicodeDecodeError:
        return None
    return text if _BEGINNING.match(text) else None


def _inflated(body: bytes) -> bytes:
    """A body stored with its `Content-Encoding`; only as much as was sound."""
    if not body.startswith((b"\x1f\x8b\x08", b"\x78\x9c", b"\x78\xda")):
        return body
    try:
        return zlib.decompressobj(wbits=47).decompress(body, MAX_INFLATED) or body
    except zlib.error:
        return body


def _without_head(body: bytes) -> bytes:
    """Without the status line and headers of a raw HTTP response."""
    if not _HTTP_HEAD.match(body):
        return body
    ends = [end for mark in (b"\r\n\r\n", b"\n\n") if (end := body.find(mark)) >= 0]
    return body[min(ends) :].lstrip() if ends else body


def _dechunked(body: bytes) -> bytes:
    """The data of HTTP chunks, where the sizes were stored with them; a last chunk may be cut."""
    if not _CHUNKED.match(body):
        return body
    pieces: list[bytes] = []
    position = 0
    while (size := _CHUNK_SIZE.match(body, position)) and int(size[1], 16):
        end = size.end() + int(size[1], 16)
        pieces.append(body[size.end() : end])
        position = end + len(b"\r\n") if body[end : end + 1] == b"\r" else end + 1
        if end < len(body) and body[end : end + 1] not in b"\r\n":
            return body  # a number that is no chunk's size
    return b"".join(pieces)


def _encoding(body: bytes) -> str:
    """By byte order mark, else by where the NULs stand (RFC 4627 §3), else a page's own word, else UTF-8."""
    for mark, encoding in _BOMS:
        if body.startswith(mark):
            return encoding
    return _by_nuls(body[:4]) or _by_page(body) or "utf-8-sig"


def _by_nuls(start: bytes) -> str | None:
    if 0 not in start:
        return None
    zeros = "".join("0" if byte == 0 else "x" for byte in start)
    return {"000x": "utf-32-be", "x000": "utf-32-le", "0x0x": "utf-16-be", "x0x0": "utf-16-le"}.get(zeros)


def _by_page(body: bytes) -> str | None:
    head = body[:2048]
    named = _CHARSET.search(head) if b"charset" in head.lower() else None
    if named is None:
        return None
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return "gb18030" if named[1].lower().startswith(b"gb") else named[1].decode("ascii")
    return None
