"""Write large files so that a run that was killed can be continued.

A hidden folder next to the output holds what is being written, and a journal of how much of it is
complete. The next run of the same work finds both.
"""

import hashlib
import json
import math
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from priorshift.files._atomic import locked, write_text

EVERY_SECONDS = 2.0
"""Time between entries of the journal: each one waits for the disk."""


@dataclass(frozen=True)
class Mark:
    """How far a file is written: the rows that are done, and the bytes they use."""

    rows: int = 0
    n_bytes: int = 0


START = Mark()
Save = Callable[[Mark], None]
"""Called with the mark up to which a file is written, whenever it could be continued there."""


@dataclass
class Partial:
    """A file that is being written.

    Attributes
    ----------
    path : Path
        The file to write, or to continue at `begin`. Files whose names begin with its name belong
        to it.
    fingerprint : str
        Digest of everything that decides what the file will hold.
    begin : Mark
        How far an earlier run wrote it.
    kept : dict or None
        What the earlier run stored in its journal.
    """

    path: Path
    fingerprint: str
    begin: Mark = START
    kept: dict[str, Any] | None = None
    saved: float = field(default=-math.inf, repr=False)

    def save(self, mark: Mark, keep: Callable[[], dict[str, Any]]) -> None:
        """Record in the journal that the file is complete up to `mark`, at most every 2 seconds.

        `keep` returns plain values that the next run needs; it is called only if they are stored.
        """
        if time.monotonic() - self.saved < EVERY_SECONDS:
            return
        for written in _files(self.path):
            _sync(written)
        entry = {"fingerprint": self.fingerprint, "mark": asdict(mark), "kept": keep()}
        signed = entry | {"checksum": _checksum(entry)}
        write_text(_journal(self.path), json.dumps(signed))
        self.saved = time.monotonic()


@contextmanager
def resumable_path(path: str | os.PathLike[str], fingerprint: str) -> Iterator[Partial]:
    """Yield a file to write that replaces `path` on success and stays for the next run if killed.

    It also stays if the run is interrupted or the disk is full. It is removed if the work itself
    fails, or if the next run has another fingerprint.
    """
    goal = Path(path).resolve()  # a link keeps pointing to its file
    with _held_folder(goal, path) as folder:
        _require_own(folder)
        try:
            partial = _found(folder / f"data{goal.suffix}", fingerprint)
            yield partial
            _sync(partial.path)
            if goal.exists():
                shutil.copymode(goal, partial.path)
            partial.path.replace(goal)
        except OSError:  # such as no space left
            raise
        except Exception:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)


def remove_partial(path: str | os.PathLike[str]) -> None:
    """Remove what a killed run left of a file that will not be continued."""
    goal = Path(path).resolve()
    with suppress(OSError, ValueError), _held_folder(goal, path) as folder:
        if folder.exists():
            _require_own(folder)
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _held_folder(goal: Path, path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the hidden folder of an output while other runs are kept out."""
    folder = goal.with_name(f".{goal.name}.partial")
    lock = folder.with_name(f"{folder.name}.lock")
    with locked(lock, f"another run is writing {path}; wait for it."):
        yield folder


def _require_own(folder: Path) -> None:
    """Make the folder, or make sure that nobody else did: its name is easy to guess."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or (os.name == "posix" and state.st_uid != os.getuid()):
        raise ValueError(
            f"{folder} is where this run would keep what it has written, but it is a link, a file "
            "or another user's; remove it, or write elsewhere."
        )
    if os.name == "posix" and stat.S_IMODE(state.st_mode) & 0o077:
        if state.st_mode & 0o022:  # others may have put something there
            shutil.rmtree(folder)
            folder.mkdir(mode=0o700)
        folder.chmod(0o700)


def _found(path: Path, fingerprint: str) -> Partial:
    """Return what an earlier run left if it did the same work; otherwise clear the folder."""
    try:
        entry = json.loads(_journal(path).read_text(encoding="utf-8"))
        if entry.pop("checksum") != _checksum(entry):
            raise ValueError("the journal is damaged")
        mark, n_bytes = Mark(**entry["mark"]), sum(file.stat().st_size for file in _files(path))
        if entry["fingerprint"] == fingerprint and n_bytes >= mark.n_bytes:
            return Partial(path, fingerprint, mark, entry["kept"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass  # there is none, or it is of no use
    for left in _files(path):
        left.unlink()
    _journal(path).unlink(missing_ok=True)
    return Partial(path, fingerprint)


def _files(path: Path) -> Iterator[Path]:
    """Return the files that hold what was written so far."""
    return path.parent.glob(f"{path.name}*")


def _checksum(entry: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()


def _journal(path: Path) -> Path:
    return path.with_name("journal.json")


def _sync(path: Path) -> None:
    """Wait until a file is on the disk."""
    number = os.open(path, os.O_RDWR)
    try:
        os.fsync(number)
    finally:
        os.close(number)
