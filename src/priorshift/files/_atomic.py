"""Write files whole or not at all, and keep two runs from writing the same one."""

import errno
import glob
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path next to `path` that replaces it on success and is removed on failure.

    Readers see the old file or the new one, never half of it, even if the process is killed. The
    next file written under this name removes what a killed process left behind. A pipe or device
    such as /dev/stdout is yielded as it is.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from priorshift.files import atomic_path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_path(Path(folder) / "a.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     (Path(folder) / "a.txt").read_text()
    'whole'
    """
    goal = Path(path).resolve()  # a link keeps pointing to its file
    if goal.exists() and not goal.is_file():
        if goal.is_dir():
            raise IsADirectoryError(f"{path} is a folder; give the name of a file.")
        with _named((goal,), path):
            yield goal
        return
    if not goal.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {goal.parent}.")
    _remove_leftovers(goal)
    temporary = goal.with_name(f".{goal.stem}.{secrets.token_hex(4)}{goal.suffix}")
    lock = temporary.with_name(f"{temporary.name}.lock")
    with _named((temporary, lock), path), locked(lock, f"another run is writing {path}"):
        try:
            yield temporary
            if goal.exists():
                shutil.copymode(goal, temporary)
            temporary.replace(goal)
        finally:
            temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write text as UTF-8, atomically; return the path."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
    return Path(path)


@contextmanager
def locked(path: Path, message: str) -> Iterator[bool]:
    """Hold a lock file and remove it at the end; raise BlockingIOError if another run holds it.

    Yields whether the lock is held: some systems and network drives have no such locks. The
    operating system releases the lock of a process that was killed.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield False
        return
    number, held = -1, False
    while not held:
        # follow no link: the name of the file can be guessed
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(number)
            raise BlockingIOError(message) from None
        except OSError:
            break
        held = _is_at(number, path)
        if not held:  # the previous holder has just removed it
            os.close(number)
    try:
        yield held
    finally:
        path.unlink(missing_ok=True)
        os.close(number)


def _is_at(number: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(number), path.lstat())
    except FileNotFoundError:
        return False


def _remove_leftovers(goal: Path) -> None:
    """Remove the temporary files of killed runs: those whose locks nobody holds any more."""
    stem, suffix = glob.escape(f".{goal.stem}."), glob.escape(goal.suffix)
    for lock in goal.parent.glob(f"{stem}{'[0-9a-f]' * 8}{suffix}.lock"):
        with suppress(OSError), locked(lock, "it is being written") as held:
            if held:
                lock.with_suffix("").unlink(missing_ok=True)


@contextmanager
def _named(written: tuple[Path, ...], path: str | os.PathLike[str]) -> Iterator[None]:
    """Make errors name the path that the caller asked for."""
    try:
        yield
    except OSError as error:
        if str(error.filename) in map(str, written) or error.errno == errno.ENOSPC:
            raise OSError(error.errno, error.strerror or str(error), str(path)) from None
        raise
