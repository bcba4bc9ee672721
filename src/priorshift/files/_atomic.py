"""Write files whole or not at all, privately, and keep two runs from writing the same one.

In a folder that others may write to, a name can be taken by a link before we use it. So a file is
created under a name that nobody can guess and that must be new, follows no link, is readable by
nobody else, and is written through the descriptor that created it: its name is used again only to
move it to its place.
"""

import errno
import glob
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Follow no link, and do not wait for the other end of a pipe."""

TOKEN_BYTES = 16
NO_ROOM = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
"""Errors of writing that do not say which file they are about."""


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a stream to write that replaces `path` on success and leaves nothing on failure.

    Readers see the old file or the new one, never half of it, even if the process is killed. The
    next file written under this name removes what a killed process left behind. While it is being
    written only you can read it; then it has the mode of the file that it replaces, or the usual
    one. A link of yours keeps pointing to its file; another user's is refused. A pipe or a device
    such as /dev/stdout gets everything at the end.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from priorshift.files import atomic_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_file(Path(folder) / "a.txt") as stream:
    ...         _ = stream.write(b"whole")
    ...     (Path(folder) / "a.txt").read_text()
    'whole'
    """
    if is_device(path):  # which may not go back, as zip archives must
        with _naming(Path(path), path), tempfile.TemporaryFile() as spool:
            yield cast("BinaryIO", spool)
            spool.seek(0)
            with Path(path).open("ab") as device:  # stdout may be a file that others write to
                shutil.copyfileobj(spool, device)
        return
    goal = followed(path)
    if goal.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file.")
    if not goal.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {goal.parent}.")
    _remove_leftovers(goal)
    with _naming(goal, path), _created(goal) as (stream, temporary):
        yield stream
        stream.flush()
        if hasattr(os, "fchmod"):
            os.fchmod(stream.fileno(), _mode_of(goal))
        os.fsync(stream.fileno())
        if os.name == "nt":  # Windows moves no open file; elsewhere it stays locked
            stream.close()
        temporary.replace(goal)
        with suppress(OSError):  # Windows opens no folder; some network drives cannot wait
            folder = os.open(goal.parent, os.O_RDONLY)
            try:
                os.fsync(folder)  # names are on the disk, too
            finally:
                os.close(folder)


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write text as UTF-8, atomically; return the path."""
    with atomic_file(path) as stream:
        stream.write(text.encode())
    return Path(path)


def read_private(path: str | os.PathLike[str]) -> bytes:
    """Read a file that must not be a link, a folder, a pipe or a device."""
    try:
        number = os.open(path, os.O_RDONLY | NO_LINK)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError(f"{path} is a link, which is not followed; name its file.") from None
        raise
    with os.fdopen(number, "rb") as stream:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise ValueError(f"{path} is a pipe or a device; name a file.")
        return stream.read()


def refuse_link(path: str | os.PathLike[str]) -> None:
    """Raise ValueError if a path is a link."""
    if Path(path).is_symlink():
        raise ValueError(f"{path} is a link, which is not followed; name its file.")


def is_device(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path exists and is a pipe or a device, or a descriptor such as /dev/stdout."""
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    described = re.match(r"/dev/(std(out|err)$|fd/)|/proc/", str(Path(path).absolute())) is not None
    return not stat.S_ISDIR(mode) and (described or not stat.S_ISREG(mode))


def followed(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path stands for; refuse a link that another user made.

    The system follows the folders before it by its own rules, which may be stricter.
    """
    goal = Path(path)
    for _ in range(40):
        if not goal.is_symlink():
            return goal
        if os.name == "posix" and goal.lstat().st_uid not in (os.geteuid(), 0):
            raise PermissionError(f"{goal} is a link of another user; remove it, or name its file.")
        goal = goal.parent / goal.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def lock(number: int) -> bool:
    """Take the lock of an open file; tell whether that worked, raise BlockingIOError if it is held.

    Some systems and network drives have no such locks. The system releases the lock of a process
    that was killed.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def is_at(number: int, path: Path) -> bool:
    """Tell whether a path still names an open file."""
    try:
        return os.path.samestat(os.fstat(number), path.lstat())
    except FileNotFoundError:
        return False


def hold(path: Path, mode: int, message: str) -> int:
    """Open or create a file, which no link may be, and lock it; return its descriptor.

    Raise BlockingIOError if another run holds it.
    """
    while True:
        number = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, mode)
        try:
            if not lock(number) or is_at(number, path):
                return number
        except BlockingIOError:
            os.close(number)
            raise BlockingIOError(message) from None
        os.close(number)  # the previous holder has just removed it


@contextmanager
def locked(path: Path, message: str) -> Iterator[None]:
    """Hold a lock file and remove it at the end; raise BlockingIOError if another run holds it."""
    number = hold(path, 0o666, message)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(number)


@contextmanager
def _created(goal: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """Yield a new private file beside another, and its path; remove it unless it was moved.

    The open file is its own lock, by which the next run knows whether anybody still writes it.
    """
    while True:
        path = goal.with_name(_hidden(goal) + secrets.token_hex(TOKEN_BYTES))
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINK, 0o600)
        with suppress(BlockingIOError):
            if not lock(number) or is_at(number, path):
                break
        os.close(number)  # another run has just taken it for a leftover
    try:
        with os.fdopen(number, "w+b") as stream:
            yield cast("BinaryIO", stream), path
    finally:
        path.unlink(missing_ok=True)


def _hidden(goal: Path) -> str:
    """Return how the names of temporary files begin; with more of it they might be too long."""
    return f".{goal.name[:50]}."


def _remove_leftovers(goal: Path) -> None:
    """Remove the temporary files of killed runs: ours, that nobody holds any more."""
    for path in goal.parent.glob(glob.escape(_hidden(goal)) + "[0-9a-f]" * (2 * TOKEN_BYTES)):
        with suppress(OSError):
            state = path.lstat()
            if not stat.S_ISREG(state.st_mode) or state.st_uid != getattr(os, "geteuid", int)():
                continue
            number = os.open(path, os.O_RDONLY | NO_LINK)
            try:
                if lock(number):
                    path.unlink()
            finally:
                os.close(number)


def _mode_of(goal: Path) -> int:
    """Return the mode of a file, or the one that new files get."""
    with suppress(FileNotFoundError):
        return stat.S_IMODE(goal.lstat().st_mode)
    # creating a file is the only way to learn that without touching what other threads share
    path = goal.with_name(_hidden(goal) + secrets.token_hex(TOKEN_BYTES))
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, 0o666)
    try:
        return stat.S_IMODE(os.fstat(number).st_mode)
    finally:
        path.unlink(missing_ok=True)
        os.close(number)


@contextmanager
def _naming(goal: Path, path: str | os.PathLike[str]) -> Iterator[None]:
    """Make errors of writing name the path that the caller asked for."""
    try:
        yield
    except OSError as error:
        hidden = Path(str(error.filename)).name.startswith(_hidden(goal))
        if hidden or error.errno in NO_ROOM:
            raise OSError(error.errno, error.strerror or str(error), str(path)) from None
        raise
