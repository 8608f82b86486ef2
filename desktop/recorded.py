"""A folder of recorded answers for the replay driver (2-desktop §2.4).

Any folder will do: each file is one response body, its top folder the platform, its name the question. A
`MANIFEST.jsonl` beside them, one JSON object a line with `file` and optionally `platform`, `question` and `language`,
says it better. What cannot be replayed is named with its reason; the rest is loaded.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from domain.errors import InvalidInput, NotFound

MAX_BYTES: Final = 1_000_000
MAX_QUESTION: Final = 2000
MAX_PLATFORM: Final = 64

_MANIFEST: Final = "MANIFEST.jsonl"
_BESIDE: Final = frozenset({_MANIFEST, "README.md", "QUESTIONS.json", "brand.json"})
_ENDINGS: Final = frozenset({".json", ".jsonl", ".sse", ".md", ".html", ".htm", ".txt"})
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_HAN: Final = re.compile("[\u3400-\u9fff]")


class AnswersFolderMissing(NotFound):
    """The folder of recorded answers is no readable folder."""

    code = "answers_folder_missing"


class NoRecordedAnswers(InvalidInput):
    """The folder holds no answer that can be replayed; `context["skipped"]` says why, file by file."""

    code = "no_recorded_answers"


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """One file to replay. `file` is relative and posix; (platform, question) is unique within a folder."""

    file: str
    platform: str
    question: str
    path: Path
    language: str | None = None


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file, or a manifest line, that is not replayed."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class RecordedAnswers:
    """What a folder offers, ordered by file."""

    answers: tuple[RecordedAnswer, ...]
    skipped: tuple[SkippedFile, ...] = ()
    _exact: dict[tuple[str, str], RecordedAnswer] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        exact = {(answer.platform, answer.question): answer for answer in self.answers}
        object.__setattr__(self, "_exact", exact)

    def find(self, platform: str, question: str) -> RecordedAnswer | None:
        """The answer to exactly this question, white space aside."""
        return self._exact.get((platform, _question(question)))

    def answer_for(self, platform: str, question: str, seed: int = 0) -> RecordedAnswer | None:
        """The exact answer, else the same other one every time: in the question's language where there is one."""
        found = self.find(platform, question)
        if found is not None:
            return found
        offered = [answer for answer in self.answers if answer.platform == platform]
        language = _language(question)
        spoken = [answer for answer in offered if (answer.language or _language(answer.question)) == language]
        candidates = spoken or offered
        if not candidates:
            return None
        key = f"{seed}\0{platform}\0{_question(question)}"
        digest = hashlib.sha256(key.encode()).digest()
        return candidates[int.from_bytes(digest[:8]) % len(candidates)]


def samples_folder() -> Path:
    """The answers of fictional brands that the project ships."""
    return Path(__file__).parent / "samples"


def load_answers(folder: Path) -> RecordedAnswers:
    """Read a folder once. Raises AnswersFolderMissing or NoRecordedAnswers; single bad files are only named."""
    if not folder.is_dir():
        raise AnswersFolderMissing(f"no folder of recorded answers at {folder}; check --answers", folder=str(folder))
    entries, skipped = _read_manifest(folder / _MANIFEST)
    files, unfit = _sort_out(_walk(folder))
    skipped += unfit
    skipped += [SkippedFile(name, "in the manifest, but not in the folder") for name in _missing(folder, entries)]
    answers = tuple(_unique(_answer(file, path, entries.get(file)) for file, path in files))
    if not answers:
        raise NoRecordedAnswers(f"no recorded answer in {folder} can be replayed", skipped=_listed(skipped))
    return RecordedAnswers(answers, tuple(skipped))


class _Entry(msgspec.Struct, frozen=True):
    """What the manifest may say of a file; other keys are left alone."""

    file: str
    platform: str | None = None
    question: str | None = None
    language: str | None = None


def _read_manifest(manifest: Path) -> tuple[dict[str, _Entry], list[SkippedFile]]:
    entries: dict[str, _Entry] = {}
    skipped: list[SkippedFile] = []
    try:
        lines = manifest.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except FileNotFoundError:
        return {}, []
    except OSError as error:
        return {}, [SkippedFile(_MANIFEST, error.strerror or "unreadable")]
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = msgspec.json.decode(line, type=_Entry)
            entries.setdefault(str(PurePosixPath(entry.file)), entry)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            skipped.append(SkippedFile(f"{_MANIFEST}:{number}", f"broken manifest line: {str(error)[:120]}"))
    return entries, skipped


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    """Every visible entry that might be an answer, ordered; a folder named like a file is one of them."""
    found: list[tuple[str, Path]] = []
    closed: list[OSError] = []
    for parent, folders, names in os.walk(folder, onerror=closed.append):
        odd = [name for name in folders if _ends_like_an_answer(name) or Path(parent, name).is_symlink()]
        folders[:] = [name for name in folders if name not in odd and not name.startswith(".")]
        paths = [Path(parent, name) for name in names + odd if not name.startswith(".")]
        found += [(path.relative_to(folder).as_posix(), path) for path in paths]
    found += [(os.path.relpath(error.filename, folder), Path(error.filename)) for error in closed]
    return iter(sorted(pair for pair in found if pair[0] not in _BESIDE))


def _ends_like_an_answer(name: str) -> bool:
    return Path(name).suffix.lower() in _ENDINGS


def _sort_out(entries: Iterable[tuple[str, Path]]) -> tuple[list[tuple[str, Path]], list[SkippedFile]]:
    files: list[tuple[str, Path]] = []
    skipped: list[SkippedFile] = []
    for file, path in entries:
        reason = _unfit(path)
        if reason is None:
            files.append((file, path))
        else:
            skipped.append(SkippedFile(_storable(file), reason))
    return files, skipped


def _unfit(path: Path) -> str | None:
    """Why a path cannot be replayed, or None. Opens regular files of a fitting size only."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            return _unfit_folder(path)
        if not stat.S_ISREG(status.st_mode):
            return "not a regular file"
        if not _ends_like_an_answer(path.name):
            return f"not one of {', '.join(sorted(_ENDINGS))}"
        return _unfit_size(status.st_size) or _unfit_content(path.read_bytes())
    except FileNotFoundError:
        return "a link to nothing" if path.is_symlink() else "gone while being read"
    except OSError as error:
        return error.strerror or "unreadable"


def _unfit_folder(path: Path) -> str:
    if path.is_symlink():
        return "a linked folder"
    return "a folder named like a file" if _ends_like_an_answer(path.name) else "a folder that cannot be read"


def _unfit_size(size: int) -> str | None:
    if size == 0:
        return "empty"
    return f"over {MAX_BYTES} bytes" if size > MAX_BYTES else None


def _unfit_content(body: bytes) -> str | None:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"not UTF-8 at byte {error.start}"
    return None


def _missing(folder: Path, entries: Iterable[str]) -> list[str]:
    """Manifest entries without a file; one that points outside the folder has none, whatever lies there."""
    return [
        _storable(file)
        for file in entries
        if ".." in PurePosixPath(file).parts or "\0" in file or not os.path.lexists(folder / file.lstrip("/"))
    ]


def _answer(file: str, path: Path, entry: _Entry | None) -> RecordedAnswer:
    top = PurePosixPath(file).parts[0] if "/" in file else "recorded"
    platform = _line(entry.platform if entry and entry.platform else top)[:MAX_PLATFORM]
    asked = _question(entry.question if entry and entry.question else "")
    language = entry.language if entry else None
    return RecordedAnswer(
        file=_storable(file),
        platform=platform or "recorded",
        question=asked or _question(path.stem) or "?",
        path=path,
        language=language,
    )


def _unique(answers: Iterable[RecordedAnswer]) -> Iterator[RecordedAnswer]:
    """Repeated questions get their file's name behind them, so that every file has a question of its own."""
    taken: set[tuple[str, str]] = set()
    for answer in answers:
        question, suffix = answer.question, f" ({answer.file[-400:]})"
        while (answer.platform, question) in taken:
            question = _question(answer.question[: MAX_QUESTION - len(suffix)] + suffix)
            suffix += "*"
        taken.add((answer.platform, question))
        yield replace(answer, question=question)


def _listed(skipped: Iterable[SkippedFile]) -> list[str]:
    return [f"{entry.file}: {entry.reason}" for entry in skipped]


def _question(text: str) -> str:
    return _line(text)[:MAX_QUESTION].rstrip()


def _line(text: str) -> str:
    return " ".join(_UNSTORABLE.sub(" ", text).split())


def _storable(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", text)


def _language(text: str) -> str:
    return "zh" if _HAN.search(text) else "en"
