"""Write large files so that a run that was killed can go on where it was.

What is being written lies in a hidden folder beside its goal, with a journal that says how far it
is good. Whoever starts the same work again finds both.
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

from priorshift.io._atomic import write_text
from priorshift.io._locks import locked

EVERY_SECONDS = 2.0
"""Time between entries of the journal: each waits for the disk."""


@dataclass(frozen=True)
class Mark:
    """How far a file is written: rows that are done, and bytes that they take."""

    rows: int = 0
    n_bytes: int = 0


START = Mark()
Save = Callable[[Mark], None]
"""Hears how far a file is written, whenever that can be continued."""


@dataclass
class Partial:
    """A file in the making.

    Attributes
    ----------
    path : Path
        The file to write, or to continue at `begin`.
    fingerprint : str
        Of all that decides what will be in it.
    begin : Mark
        How far it was written before.
    kept : dict or None
        What the earlier run kept in its journal.
    """

    path: Path
    fingerprint: str
    begin: Mark = START
    kept: dict[str, Any] | None = None
    saved: float = field(default=-math.inf, repr=False)

    def save(self, mark: Mark, keep: Callable[[], dict[str, Any]]) -> None:
        """Enter in the journal that the file is good as far as `mark`, unless that was just done.

        `keep` returns plain values that the next run needs; it is not called in vain.
        """
        if time.monotonic() - self.saved < EVERY_SECONDS:
            return
        for written in self.path.parent.glob(f"{self.path.name}*"):
            _sync(written)
        entry = {"fingerprint": self.fingerprint, "mark": asdict(mark), "kept": keep()}
        signed = entry | {"checksum": _checksum(entry)}
        write_text(_journal(self.path), json.dumps(signed))
        self.saved = time.monotonic()


@contextmanager
def resumable_path(path: str | os.PathLike[str], fingerprint: str) -> Iterator[Partial]:
    """Yield a file to write that replaces `path` on success, and stays for the next run if killed.

    It also stays when the run is interrupted or the disk is full. It goes when the work itself
    fails, or when the next run has another fingerprint.
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
        except OSError:  # no space left
            raise
        except Exception:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)


def remove_partial(path: str | os.PathLike[str]) -> None:
    """Remove what a run that was killed left of a file, where the next one will not go on."""
    goal = Path(path).resolve()
    with suppress(OSError, ValueError), _held_folder(goal, path) as folder:
        if folder.exists():
            _require_own(folder)
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _held_folder(goal: Path, path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the hidden folder of a goal while other runs are held off."""
    folder = goal.with_name(f".{goal.name}.partial")
    lock = folder.with_name(f"{folder.name}.lock")
    with locked(lock, f"another run is writing {path}; wait for it."):
        yield folder


def _require_own(folder: Path) -> None:
    """Make the folder, or make sure that nobody else made it: its name is easily guessed."""
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
    """Return what an earlier run left, if it was the same work, else clear the folder."""
    if set_aside(path).exists():  # that run was killed while it copied from there
        set_aside(path).replace(path)
    try:
        entry = json.loads(_journal(path).read_text(encoding="utf-8"))
        if entry.pop("checksum") != _checksum(entry):
            raise ValueError("the journal is damaged")
        mark = Mark(**entry["mark"])
        if entry["fingerprint"] == fingerprint and path.stat().st_size >= mark.n_bytes:
            return Partial(path, fingerprint, mark, entry["kept"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass  # there is none, or it cannot be used
    for left in path.parent.glob(f"{path.name}*"):
        left.unlink()
    _journal(path).unlink(missing_ok=True)
    return Partial(path, fingerprint)


def _checksum(entry: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()


def set_aside(path: Path) -> Path:
    """Return where a file lies while what is good of it is written anew."""
    return path.with_name(f"{path.name}.old")


def _journal(path: Path) -> Path:
    return path.with_name("journal.json")


def _sync(path: Path) -> None:
    """Wait until a file is on the disk."""
    number = os.open(path, os.O_RDWR)
    try:
        os.fsync(number)
    finally:
        os.close(number)
