"""NumPy's npy and npz; nothing is ever unpickled."""

import errno
import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shutil import copyfileobj
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats
from priorshift._validation import some
from priorshift.execution import ArrayTable, Rows
from priorshift.io._base import (
    Advance,
    PredictionFile,
    Rewrite,
    apply,
    as_text,
    order_of,
    require_distinct,
    row_starts,
)
from priorshift.io._resume import START, Mark, Save

NO_OBJECTS = "Store labels and classes as numbers or fixed-width strings, not as objects."


@dataclass(frozen=True)
class NpyFile(PredictionFile):
    """One array, mapped rather than read: a matrix of predictions, or a vector of anything."""

    is_table = False
    names = None

    @cached_property
    def array(self) -> NDArray[Any]:
        """The array, in the file."""
        with readable(self.where):
            with self.path.open("rb") as stream:  # np.load would take other formats as well
                _check_header(stream, self.path.stat().st_size)
            return cast("NDArray[Any]", np.load(self.path, allow_pickle=False, mmap_mode="r"))

    def values(self, names: Sequence[str] | None) -> Floats:  # noqa: ARG002
        """Return the predictions as they lie in the file."""
        return _matrix(self.array, self.where)

    def rows(self, names: Sequence[str] | None = None) -> Rows:
        """Return the predictions as a table of mapped pages; other numbers than float convert."""
        values = self.values(names)
        if values.dtype.itemsize > 8:
            raise ValueError(f"{self.where} holds {values.dtype}; store it as float32 or float64.")
        return ArrayTable(values)

    def labels(self) -> NDArray[Any] | None:
        """Return the vector, if the file holds one."""
        return _decoded(self.vector(self.label_column))

    def vector(self, name: str) -> NDArray[Any] | None:  # noqa: ARG002
        """Return the vector, if the file holds one: it has no names."""
        return self.array if self.array.ndim == 1 else None

    def n_rows(self) -> int:
        """Return the number of rows."""
        return int(self.array.shape[0])

    def rewrite(
        self,
        output: Path,
        names: Sequence[str] | None,
        function: Rewrite,
        advance: Advance,
        begin: Mark = START,
        save: Save | None = None,
    ) -> None:
        """Write a copy with new predictions."""
        source = self.values(names)
        new = (
            np.lib.format.open_memmap(output, mode="r+")
            if begin.rows
            else np.lib.format.open_memmap(
                output, mode="w+", dtype=_float_type(source), shape=source.shape
            )
        )
        if begin.rows:
            advance(begin.rows)
        for rows in row_starts(source.shape[0], begin.rows):
            new[rows] = apply(function, source[rows], rows.start, advance, self.where)
            if save is not None:
                save(Mark(rows.stop, output.stat().st_size))
        new.flush()


@dataclass(frozen=True)
class NpzFile(PredictionFile):
    """Arrays by name: `y_proba` or `logits`, and perhaps `y`, `classes`, `source_priors`."""

    is_table = False

    @cached_property
    def keys(self) -> dict[str, zipfile.ZipInfo]:
        """The arrays' places in the archive, by name."""
        with self._archive() as archive:
            return {member.filename.removesuffix(".npy"): member for member in archive.infolist()}

    @property
    def key(self) -> str:
        """The name of the predictions."""
        # with --logits, y_proba may hold logits: the user said so
        for key in ("logits", "y_proba") if self.kind == "logits" else ("y_proba",):
            if key in self.keys:
                return key
        raise ValueError(
            f"{self.where} has no array 'y_proba' or 'logits'; it has {some(sorted(self.keys))}."
        )

    @cached_property
    def names(self) -> tuple[str, ...] | None:
        """The classes, if they are named."""
        classes = self.vector("classes")
        if classes is None:
            return None
        names = tuple(as_text(np.ravel(classes)).tolist())
        require_distinct(names, f"classes in {self.where}")
        return names

    @cached_property
    def predictions(self) -> Floats:
        """The predictions, columns as they are in the file."""
        values = _matrix(self._read(self.key), f"{self.key} in {self.where}")
        if self.names is not None and len(self.names) != values.shape[1]:
            raise ValueError(
                f"{self.where} has {len(self.names)} classes but {self.key} has {values.shape[1]} "
                "columns; give each column its class."
            )
        return values

    def values(self, names: Sequence[str] | None) -> Floats:
        """Return the predictions."""
        order = self._order(names)
        # take keeps rows contiguous, as they are when the order is right: sums come out the same
        return self.predictions if order is None else np.take(self.predictions, order, axis=1)

    def labels(self) -> NDArray[Any] | None:
        """Return the labels, if there are any."""
        return _decoded(self.vector(self.label_column))

    def vector(self, name: str) -> NDArray[Any] | None:
        """Return an array by name, if there is one."""
        return self._read(name) if name in self.keys else None

    def n_rows(self) -> int:
        """Return the number of rows."""
        return int(self.predictions.shape[0])

    @property
    def resumable(self) -> bool:
        """Return False: the predictions are in memory, and written last and at once."""
        return False

    def rewrite(
        self,
        output: Path,
        names: Sequence[str] | None,
        function: Rewrite,
        advance: Advance,
        begin: Mark = START,  # noqa: ARG002
        save: Save | None = None,  # noqa: ARG002
    ) -> None:
        """Write a copy with new predictions, columns in the file's own order; not in parts.

        Other arrays are copied as bytes, so that nothing in them needs to be understood.
        """
        values, order = self.values(names), self._order(names)
        new = np.empty(values.shape, dtype=_float_type(values))
        back = slice(None) if order is None else order
        for rows in row_starts(values.shape[0]):
            new[rows, back] = apply(function, values[rows], rows.start, advance, self.where)
        kept = [member for name, member in self.keys.items() if name not in (self.key, "y_proba")]
        compression = self.keys[self.key].compress_type
        with self._archive() as old, zipfile.ZipFile(output, "w", compression) as archive:
            for member in kept:
                with (
                    readable(f"{member.filename!r} in {self.where}"),
                    old.open(member) as source,
                    _member(archive, member.filename) as goal,
                ):
                    copyfileobj(source, goal)
            with _member(archive, "y_proba.npy") as goal:
                np.lib.format.write_array(goal, new, allow_pickle=False)

    def _order(self, names: Sequence[str] | None) -> list[int] | None:
        return None if not names or not self.names else order_of(names, self.names, self.where)

    @contextmanager
    def _archive(self) -> Iterator[zipfile.ZipFile]:
        with readable(self.where):
            archive = zipfile.ZipFile(self.path)
        with archive:
            yield archive

    def _read(self, name: str) -> NDArray[Any]:
        where = f"{name!r} in {self.where}"
        with self._archive() as archive, readable(where):
            with archive.open(self.keys[name]) as member:
                _check_header(cast("BinaryIO", member), self.keys[name].file_size)
            with archive.open(self.keys[name]) as member:
                return np.lib.format.read_array(cast("BinaryIO", member), allow_pickle=False)


def _check_header(stream: BinaryIO, n_bytes: int) -> None:
    """Refuse an array whose header says what cannot be, before NumPy takes it at its word."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"it has version {version} of the format; save it anew with numpy.save.")
    read = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
    shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("Python objects")
    whole = all(type(length) is int and 0 <= length < 2**53 for length in shape)
    if not whole or math.prod(shape) * dtype.itemsize > n_bytes - stream.tell():
        raise ValueError(
            f"its header says that it is of shape {shape} and type {dtype}, which its {n_bytes:,} "
            "bytes cannot hold; save it anew with numpy.save."
        )


@contextmanager
def readable(where: str) -> Iterator[None]:
    """Say which file or array cannot be read, and why."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # NumPy and zipfile may raise anything on a damaged file
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise  # it is not there, or the disk is full
        if "allow_pickle" in str(error) or "Python objects" in str(error):
            raise ValueError(f"{where} holds Python objects. {NO_OBJECTS}") from None
        raise ValueError(f"{where} cannot be read: {error}; write it anew.") from None


def _decoded(labels: NDArray[Any] | None) -> NDArray[Any] | None:
    """Turn bytes into text."""
    return as_text(labels) if labels is not None and labels.dtype.kind == "S" else labels


def _member(archive: zipfile.ZipFile, name: str) -> Any:
    """Open a member for writing; it may be large."""
    return archive.open(name, "w", force_zip64=True)


def _float_type(values: NDArray[Any]) -> np.dtype[Any]:
    """Return the type of adapted predictions: the old one, or float64 where that was integer."""
    return values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)


def _matrix(array: NDArray[Any], where: str) -> NDArray[Any]:
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise ValueError(
            f"{where} must be a matrix of numbers (rows, classes); got shape {array.shape} of "
            f"{array.dtype}."
        )
    return array
