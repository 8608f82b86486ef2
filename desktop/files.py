"""Files that are written whole or not at all, readable by their owner only."""

import os
from contextlib import suppress
from pathlib import Path


def private_folder(path: Path) -> Path:
    """Make the folder (mode 0700) and return it."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def write_whole(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace `path` in one step; when `durable` it survives a power cut after the return. Raises OSError."""
    fresh = path.with_name(f".{path.name}.new")
    try:
        _write(fresh, data, durable)
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(path.parent)


def _write(path: Path, data: bytes, durable: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class GenerationFile:
    """The highest interrupt generation this desktop has seen, kept over restarts (reported in `hello`)."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> int:
        """The kept number; 0 when there is none or the file says nothing sensible."""
        try:
            return max(0, int(self._path.read_text()))
        except (OSError, ValueError):
            return 0

    def save(self, generation: int) -> None:
        """Keep the number; quick, since a number lost with the power is only a smaller one. Raises OSError."""
        write_whole(self._path, str(generation).encode(), durable=False)
