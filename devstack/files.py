"""Small files of the state folder: written whole or not at all, and readable by their owner only."""

import hashlib
import os
import secrets
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Replace `path` in one step, mode 0600."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)


def kept_secret(path: Path, size: int = 24) -> str:
    """The random secret kept in `path`, made on first use. An empty file counts as absent."""
    if path.exists() and (kept := path.read_text().strip()):
        return kept
    secret = secrets.token_hex(size)
    write_private(path, secret)
    return secret


def stack_id(state_dir: Path) -> str:
    """Names this stack among others on the machine.

    The path is part of it, so that a copied clone is another stack; the secret is part of it, so that a
    state folder deleted and made again does not find the old one's data.
    """
    secret = kept_secret(state_dir / "id", 8)
    return hashlib.sha256(f"{state_dir.resolve()}:{secret}".encode()).hexdigest()[:12]


def last_lines(path: Path, offset: int = 0, count: int = 15) -> str:
    """The last lines written to a log after `offset` bytes."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(offset, end - 8192))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-count:])
