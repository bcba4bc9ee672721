"""Locks that end with their process, however it ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, message: str) -> Iterator[bool]:
    """Hold a lock file, and remove it in the end; raise BlockingIOError where another run holds it.

    Yields whether it is held: there are systems and network drives without such locks. The file
    of a run that was killed is no hindrance, since the system has let go of it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield False
        return
    number, held = -1, False
    while not held:
        # no link is followed, for the name of the file may be guessed
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(number)
            raise BlockingIOError(message) from None
        except OSError:
            break
        held = _is_at(number, path)
        if not held:  # whoever held it has just removed it
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
