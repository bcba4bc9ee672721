"""Write files whole or not at all."""

import errno
import glob
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from priorshift.io._locks import locked


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path` that replaces it on success and is removed on failure.

    Readers see the old file or the new one, never half of it, and so does whoever looks after the
    process was killed; what that left behind goes with the next file of this name. A pipe or device
    such as /dev/stdout is handed back as it is.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from priorshift.io import atomic_path
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
    lock = _lock_of(temporary)
    with _named((temporary, lock), path), locked(lock, f"another run is writing {path}"):
        try:
            yield temporary
            if goal.exists():
                shutil.copymode(goal, temporary)
            temporary.replace(goal)
        finally:
            temporary.unlink(missing_ok=True)


def _lock_of(temporary: Path) -> Path:
    return temporary.with_name(f"{temporary.name}.lock")


def _remove_leftovers(goal: Path) -> None:
    """Remove temporary files of runs that were killed: nobody holds their locks any more."""
    stem, suffix = glob.escape(f".{goal.stem}."), glob.escape(goal.suffix)
    for lock in goal.parent.glob(f"{stem}{'[0-9a-f]' * 8}{suffix}.lock"):
        with suppress(OSError), locked(lock, "it is being written") as held:
            if held:
                lock.with_suffix("").unlink(missing_ok=True)


@contextmanager
def _named(written: tuple[Path, ...], path: str | os.PathLike[str]) -> Iterator[None]:
    """Let failures to write name the path that was asked for."""
    try:
        yield
    except OSError as error:
        if str(error.filename) in map(str, written) or error.errno == errno.ENOSPC:
            raise OSError(error.errno, error.strerror or str(error), str(path)) from None
        raise


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write text as UTF-8, atomically; return the path."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
    return Path(path)
