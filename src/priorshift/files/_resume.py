"""Write large files so that a run that was killed can be continued.

A hidden folder next to the output holds what is being written, and a journal of how much of it is
complete. The next run of the same work finds both. The folder's name is easy to guess, so it is
opened once, must be yours, and is used by its descriptor: nobody can put another in its place.
"""

import errno
import math
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from priorshift.files._atomic import (
    NO_LINK,
    NO_ROOM,
    finish,
    followed,
    is_at,
    lock,
    sync_folder,
)
from priorshift.files._signed import read_json, sign, verify, write_json

EVERY_SECONDS = 2.0
"""Time between entries of the journal: each one waits for the disk."""

DATA, JOINED, JOURNAL, NEW_JOURNAL = "data", "joined", "journal.json", "journal.new"
LARGEST_JOURNAL = 2**26


@dataclass(frozen=True)
class Mark:
    """How far a file is written: the rows that are done, and the bytes they use.

    Arrow's formats cannot be continued, so every run writes a part of its own behind the last:
    `parts` has the first row and the first byte of each.
    """

    rows: int = 0
    n_bytes: int = 0
    parts: tuple[tuple[int, int], ...] = ()


START = Mark()


@dataclass
class Partial:
    """A file that is being written; without a fingerprint, one that nobody will continue.

    Attributes
    ----------
    stream : binary file
        What is written so far; write, or continue at `begin`.
    fingerprint : str
        Digest of everything that decides what the file will hold.
    begin : Mark
        How far an earlier run wrote it.
    kept : dict or None
        What the earlier run stored in its journal.
    """

    stream: BinaryIO
    fingerprint: str = ""
    begin: Mark = START
    kept: dict[str, Any] | None = None
    folder: "_Folder | None" = field(default=None, repr=False)
    saved: float = field(default=-math.inf, repr=False)

    def save(self, mark: Callable[[], Mark], keep: Callable[[], dict[str, Any]]) -> None:
        """Record in the journal that the file is complete up to a mark, at most every 2 seconds.

        `mark` and `keep`, which returns plain values that the next run needs, are called only if
        something is recorded.
        """
        if self.folder is None or time.monotonic() - self.saved < EVERY_SECONDS:
            return
        self.stream.flush()
        entry = {"fingerprint": self.fingerprint, "mark": asdict(mark()), "kept": keep()}
        os.fsync(self.stream.fileno())
        self.folder.write_journal(entry)
        self.saved = time.monotonic()

    @contextmanager
    def joined(self) -> Iterator[BinaryIO]:
        """Yield another stream, which is the result if it is written whole."""
        if self.folder is None:
            raise ValueError("only a file that can be continued is joined of parts.")
        self.folder.remove(JOINED)
        with self.folder.open(JOINED) as stream:
            yield stream
            self.folder.result = JOINED
            finish(stream, self.folder.goal)


@contextmanager
def resumable_file(path: str | os.PathLike[str], fingerprint: str) -> Iterator[Partial]:
    """Yield a file to write that replaces `path` on success and stays for the next run if killed.

    It also stays if the run is interrupted. It is removed if the work itself fails, if the disk is
    full, or if the next run has another fingerprint.
    """
    with _held_folder(followed(path), path) as folder:
        try:
            with folder.open(DATA) as stream:
                partial = _found(folder, stream, fingerprint)
                yield partial
                finish(stream, folder.goal)
            folder.deliver()
        except Exception as error:
            if not isinstance(error, OSError) or error.errno in NO_ROOM:
                folder.clear()
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                raise OSError(error.errno, error.strerror, str(path)) from None
            raise
        folder.clear()


def remove_partial(path: str | os.PathLike[str]) -> None:
    """Remove what a killed run left of a file that will not be continued."""
    with suppress(OSError, ValueError):
        goal = followed(path)
        if _folder_of(goal).exists():
            with _held_folder(goal, path) as folder:
                folder.clear()


@dataclass
class _Folder:
    """The hidden folder of an output, held open; by its path where there are no descriptors."""

    path: Path
    goal: Path
    number: int | None
    result: str = DATA

    def open(self, name: str) -> BinaryIO:
        """Open a file of the folder, or create it."""
        flags = os.O_RDWR | os.O_CREAT | NO_LINK
        number = os.open(self._at(name), flags, 0o600, dir_fd=self.number)
        return cast("BinaryIO", os.fdopen(number, "r+b"))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(self._at(name), dir_fd=self.number)

    def write_journal(self, entry: dict[str, Any]) -> None:
        """Replace the journal as a whole."""
        self.remove(NEW_JOURNAL)
        with self.open(NEW_JOURNAL) as stream:
            stream.write(write_json(sign(entry)).encode())
            stream.flush()
            os.fsync(stream.fileno())
        old, new = self._at(NEW_JOURNAL), self._at(JOURNAL)
        os.replace(old, new, src_dir_fd=self.number, dst_dir_fd=self.number)

    def deliver(self) -> None:
        """Move the result to its place."""
        os.replace(self._at(self.result), self.goal, src_dir_fd=self.number)
        sync_folder(self.goal.parent)

    def clear(self) -> None:
        """Remove the folder with all that is ours in it."""
        for name in (DATA, JOINED, JOURNAL, NEW_JOURNAL):
            self.remove(name)
        with suppress(OSError):
            self.path.rmdir()

    def _at(self, name: str) -> Path:
        return self.path / name if self.number is None else Path(name)


def _folder_of(goal: Path) -> Path:
    return goal.with_name(f".{goal.name}.partial")


@contextmanager
def _held_folder(goal: Path, path: str | os.PathLike[str]) -> Iterator[_Folder]:
    """Yield the hidden folder of an output while other runs are kept out."""
    folder = _folder_of(goal)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if os.name != "posix":
        yield _Folder(folder, goal, None)
        return
    while True:
        try:
            number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | NO_LINK)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise _foreign(folder) from None
            raise
        try:
            if not lock(number) or is_at(number, folder):
                break
        except BlockingIOError:
            os.close(number)
            raise BlockingIOError(f"another run is writing {path}; wait for it.") from None
        os.close(number)  # the previous holder has just removed it
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    try:
        held = _Folder(folder, goal, number)
        _require_own(held, os.fstat(number))
        yield held
    finally:
        os.close(number)


def _require_own(folder: _Folder, state: os.stat_result) -> None:
    """Refuse another user's folder; empty one that others may have written to."""
    if state.st_uid != os.geteuid():
        raise _foreign(folder.path)
    if folder.number is not None and stat.S_IMODE(state.st_mode) & 0o077:
        os.fchmod(folder.number, 0o700)
        if state.st_mode & 0o022:
            with os.scandir(folder.number) as left:
                for entry in left:
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.name, dir_fd=folder.number)
                    else:
                        os.unlink(entry.name, dir_fd=folder.number)


def _foreign(folder: Path) -> ValueError:
    return ValueError(
        f"{folder} is where this run would keep what it has written, but it is a link, a file "
        "or another user's; remove it, or write elsewhere."
    )


def _found(folder: _Folder, stream: BinaryIO, fingerprint: str) -> Partial:
    """Return what an earlier run left if it did the same work; otherwise begin anew."""
    n_bytes = stream.seek(0, os.SEEK_END)
    try:
        with folder.open(JOURNAL) as journal:
            entry = verify(read_json(journal.read(LARGEST_JOURNAL)))
        rows, size, parts = (entry["mark"][name] for name in ("rows", "n_bytes", "parts"))
        mark = Mark(rows, size, tuple((first, begin) for first, begin in parts))
        if entry["fingerprint"] == fingerprint and n_bytes >= size:
            stream.truncate(size)
            stream.seek(size)
            return Partial(stream, fingerprint, mark, entry["kept"], folder)
    except (OSError, ValueError, KeyError, TypeError):
        pass  # there is none, or it is of no use
    folder.remove(JOURNAL)
    stream.truncate(0)
    stream.seek(0)
    return Partial(stream, fingerprint, folder=folder)
