"""Keep what a run has done of a large file, so that the next run goes on where it was killed.

Beside the output, which is written whole or not at all, a hidden file takes every piece of it, each
after a line of signed JSON that says how many rows it has. The next run of the same work finds it.
Its name is easy to guess, so it must be yours and no link, and is used by its descriptor: nobody
can put another in its place.
"""

import errno
import os
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from priorshift.files._atomic import NO_ROOM, atomic_file, followed, hold, is_at
from priorshift.files._signed import read_json, sign, verify, write_line

EVERY_SECONDS = 2.0
"""Time after which what was written is brought to the disk: that takes a while."""

LONGEST_LINE = 2**26


@dataclass
class Partial:
    """An output that is being written, and what an earlier run has done of it.

    Attributes
    ----------
    stream : binary file
        Where the output goes.
    fingerprint : str
        Digest of everything that decides what the output will hold.
    store : binary file or None
        Its pieces by earlier runs, and soon by this one; None if nobody will go on with it.
    rows : int
        How many rows the pieces of earlier runs have.
    kept : dict or None
        What was kept with the last of them.
    """

    stream: BinaryIO
    fingerprint: str = ""
    store: BinaryIO | None = None
    rows: int = 0
    kept: dict[str, Any] | None = None

    def pieces(
        self,
        make: Callable[[int], Iterator[tuple[int, Any]]],
        keep: Callable[[], dict[str, Any]],
    ) -> Iterator[Any]:
        """Yield the pieces of the output: those of earlier runs, then new ones, which are kept.

        `make` yields rows and bytes of the pieces from some row on; `keep` returns plain values
        that the next run needs.
        """
        if self.store is None:
            for _, piece in make(0):
                yield piece
            return
        yield from (piece for _, piece in _stored(self.store, self.fingerprint))
        if not self.rows:
            self.store.write(write_line(sign({"fingerprint": self.fingerprint})))
        synced = -EVERY_SECONDS
        for rows, piece in make(self.rows):
            entry = {"rows": rows, "n_bytes": len(piece), "crc": zlib.crc32(piece), "kept": keep()}
            self.store.write(write_line(sign(entry)))
            self.store.write(piece)
            self.store.flush()
            if time.monotonic() - synced >= EVERY_SECONDS:
                os.fsync(self.store.fileno())
                synced = time.monotonic()
            yield piece


@contextmanager
def resumable_file(path: str | os.PathLike[str], fingerprint: str) -> Iterator[Partial]:
    """Yield a file to write that replaces `path` on success; if killed, its pieces are kept.

    They are also kept if the run is interrupted. They are removed if the work itself fails, if the
    disk is full, or if the next run has another fingerprint.
    """
    hidden = _hidden(followed(path))
    with _opened(hidden, path) as store:
        rows, kept, end = 0, None, 0
        for entry, _ in _stored(store, fingerprint):
            rows, kept, end = rows + entry["rows"], entry["kept"], store.tell()
        store.seek(end)
        store.truncate()
        try:
            with atomic_file(path) as stream:
                yield Partial(stream, fingerprint, store, rows, kept)
        except Exception as error:
            if not isinstance(error, OSError) or error.errno in NO_ROOM:
                _remove(hidden, store)
            raise
        _remove(hidden, store)


def remove_partial(path: str | os.PathLike[str]) -> None:
    """Remove what a killed run left of a file that will not be continued."""
    with suppress(OSError, ValueError):
        hidden = _hidden(followed(path))
        if hidden.exists():
            with _opened(hidden, path) as store:
                _remove(hidden, store)


def _hidden(goal: Path) -> Path:
    return goal.with_name(f".{goal.name}.partial")


@contextmanager
def _opened(hidden: Path, path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield the hidden file of an output while other runs are kept out."""
    foreign = ValueError(
        f"{hidden} is where this run would keep what it has written, but it is a link, a folder "
        "or another user's; remove it, or write elsewhere."
    )
    try:
        number = hold(hidden, 0o600, f"another run is writing {path}; wait for it.")
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR):
            raise foreign from None
        raise
    state = os.fstat(number)
    if not stat.S_ISREG(state.st_mode) or state.st_uid != getattr(os, "geteuid", int)():
        os.close(number)
        raise foreign
    stream = cast("BinaryIO", os.fdopen(number, "r+b"))
    try:
        if os.name == "posix" and stat.S_IMODE(state.st_mode) & 0o077:
            os.fchmod(number, 0o600)
            if state.st_mode & 0o022:  # others may have written to it
                stream.truncate(0)
        yield stream
    finally:
        with suppress(OSError):  # of a full disk, which was said already
            stream.close()


def _remove(hidden: Path, store: BinaryIO) -> None:
    with suppress(OSError):
        if is_at(store.fileno(), hidden):
            hidden.unlink()


def _stored(store: BinaryIO, fingerprint: str) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield the entries and pieces that earlier runs of the same work have written whole."""
    store.seek(0)
    with suppress(OSError, ValueError, KeyError, TypeError):  # the rest is of no use
        if verify(read_json(store.readline(LONGEST_LINE)))["fingerprint"] != fingerprint:
            return
        while line := store.readline(LONGEST_LINE):
            entry = verify(read_json(line))
            piece = store.read(entry["n_bytes"])
            if len(piece) != entry["n_bytes"] or zlib.crc32(piece) != entry["crc"]:
                return
            yield entry, piece
