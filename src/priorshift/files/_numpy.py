"""NumPy's npy and npz files; nothing is ever unpickled."""

import errno
import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from shutil import copyfileobj
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats, are_numbers, float_type
from priorshift._version import __version__
from priorshift.border import Blocks, LockFree, Rows, Table, as_text, row_blocks, slices, some
from priorshift.files import _base
from priorshift.files._base import ADAPTED, Copy, PredictionFile, order_of, require_distinct


class NpyFile(PredictionFile):
    """One array, mapped rather than read: a matrix of predictions, or a vector of anything."""

    is_table = False
    numeric = None
    header = ()

    @LockFree
    def array(self) -> NDArray[Any]:
        """The array, in the file."""
        with readable(self.where):
            with self.path.open("rb") as stream:  # np.load reads other formats as well
                _check_header(stream, self.path.stat().st_size)
            return cast("NDArray[Any]", np.load(self.path, allow_pickle=False, mmap_mode="r"))

    def read(self, names: Sequence[str] | None) -> Rows:  # noqa: ARG002
        """Return the predictions as a table of mapped pages, converted block by block."""
        values = _matrix(self.array, self.where)
        return NpyRows(self.path.resolve(), values.shape, float_type(values.dtype))

    def read_vector(self, name: str) -> NDArray[Any] | None:  # noqa: ARG002
        """Return the vector, if the file holds one: it has no names."""
        return _decoded(self.array) if self.array.ndim == 1 else None

    def count_rows(self) -> int:
        """Return the number of rows."""
        return int(self.array.shape[0])

    def pieces(self, copy: Copy, begin: int) -> Iterator[tuple[int, Any]]:
        """Yield the numbers of a block of rows."""
        if copy.added is not None:
            raise ValueError(
                f"{self.where} is one array, which has no room for {copy.added!r}; use npz, csv or "
                "parquet."
            )
        source = _matrix(self.array, self.where)
        for rows in row_blocks(slice(begin, source.shape[0]), n_rows=_base.BLOCK_ROWS):
            new, _ = copy.change(source[rows], rows.start)
            yield len(new), np.ascontiguousarray(new, _written_type(source)).data.cast("B")

    def join(self, copy: Copy, pieces: Iterator[Any], stream: BinaryIO) -> None:  # noqa: ARG002
        """Write a header, rows first, and all numbers."""
        described = np.lib.format.dtype_to_descr(_written_type(self.array))
        header = {"descr": described, "fortran_order": False, "shape": self.array.shape}
        np.lib.format.write_array_header_1_0(stream, header)
        # not mapped: where the disk is full, writing to a map kills the process
        for piece in pieces:
            stream.write(piece)


@dataclass(frozen=True, eq=False)
class NpyRows(Table):
    """Rows of an npy file, mapped whenever a part of them is read."""

    path: Path
    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Yield blocks, converted where the file holds numbers of another type."""
        mapped = np.load(self.path, mmap_mode="r", allow_pickle=False)
        for rows, block in slices(mapped, part, n_rows):
            yield rows, np.asarray(block, dtype=self.dtype).reshape(-1, self.shape[1])


class NpzFile(PredictionFile):
    """Arrays by name: `y_proba` or `logits`, and perhaps `y`, `classes`, `source_priors`."""

    is_table = False

    @LockFree
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

    @property
    def header(self) -> list[str]:
        """Names of all arrays."""
        return list(self.keys)

    @property
    def adapted(self) -> str | None:  # type: ignore[override]
        """Which version of priorshift wrote the mark among the arrays, if there is one."""
        mark = self.read_vector(ADAPTED)
        return None if mark is None else str(mark)

    @LockFree
    def numeric(self) -> tuple[str, ...] | None:
        """The classes, if they are named."""
        classes = self.read_vector("classes")
        if classes is None:
            return None
        names = tuple(as_text(np.ravel(classes)).tolist())
        require_distinct(names, f"classes in {self.where}")
        return names

    @LockFree
    def stored(self) -> NDArray[Any]:
        """The predictions in the shape in which they are stored."""
        return self._read(self.key)

    @LockFree
    def predictions(self) -> Floats:
        """The predictions, columns as they are in the file."""
        values = _matrix(self.stored, f"{self.key} in {self.where}")
        expected = (1, 2) if values.shape[1] == 1 else (values.shape[1],)  # [negative, positive]
        if self.numeric is not None and len(self.numeric) not in expected:
            raise ValueError(
                f"{self.where} has {len(self.numeric)} classes but {self.key} has "
                f"{values.shape[1]} columns; give each column its class."
            )
        return values

    def read(self, names: Sequence[str] | None) -> Floats:
        """Return the predictions."""
        order = self._order(names)
        # np.take keeps rows contiguous, as they are in the right order: sums come out the same
        return self.predictions if order is None else np.take(self.predictions, order, axis=1)

    def read_vector(self, name: str) -> NDArray[Any] | None:
        """Return an array by name, if there is one."""
        return _decoded(self._read(name)) if name in self.keys else None

    def count_rows(self) -> int:
        """Return the number of rows."""
        return int(self.predictions.shape[0])

    def pieces(self, copy: Copy, begin: int) -> Iterator[tuple[int, Any]]:
        """Yield blocks as two arrays: numbers, columns in the file's own order, and added cells."""
        values, order = self.read(copy.names), self._order(copy.names)
        for rows in row_blocks(slice(begin, values.shape[0]), n_rows=_base.BLOCK_ROWS):
            changed, cells = copy.change(values[rows], rows.start)
            new = np.empty(changed.shape, dtype=_written_type(values))
            new[:, slice(None) if order is None else order] = changed
            piece = BytesIO()
            for array in (new, np.array(cells if copy.added else [], dtype=str)):
                np.lib.format.write_array(piece, array, allow_pickle=False)
            yield len(new), piece.getvalue()

    def join(self, copy: Copy, pieces: Iterator[Any], stream: BinaryIO) -> None:
        """Write all arrays; those that are not predictions are copied as bytes, whatever they are.

        New predictions are gathered in memory first.
        """
        blocks = [np.empty((0, self.predictions.shape[1]), _written_type(self.predictions))]
        cells = [np.array([], dtype=str)]
        for piece in map(BytesIO, pieces):
            for gathered in (blocks, cells):
                gathered.append(np.lib.format.read_array(piece, allow_pickle=False))
        written = {
            "y_proba": np.concatenate(blocks).reshape(self.stored.shape),
            ADAPTED: np.array(__version__),
        }
        if copy.added is not None:
            written[copy.added] = np.concatenate(cells)
        kept = [m for name, m in self.keys.items() if name not in (self.key, *written)]
        compression = self.keys[self.key].compress_type
        with self._archive() as old, zipfile.ZipFile(stream, "w", compression) as archive:
            for member in kept:
                with (
                    readable(f"{member.filename!r} in {self.where}"),
                    old.open(member) as source,
                    archive.open(member.filename, "w", force_zip64=True) as goal,
                ):
                    copyfileobj(source, goal)
            for name, array in written.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as goal:
                    np.lib.format.write_array(goal, array, allow_pickle=False)

    def _order(self, names: Sequence[str] | None) -> list[int] | None:
        return None if not names or not self.numeric else order_of(names, self.numeric, self.where)

    @contextmanager
    def _archive(self) -> Iterator[zipfile.ZipFile]:
        with readable(self.where):
            archive = zipfile.ZipFile(self.path)
        with archive:
            yield archive

    def _read(self, name: str) -> NDArray[Any]:
        where, place = f"{name!r} in {self.where}", self.keys[name]
        self.require_bounded(place.file_size, place.compress_size)
        with self._archive() as archive, readable(where):
            with archive.open(place) as member:
                _check_header(cast("BinaryIO", member), place.file_size)
            with archive.open(place) as member:
                return np.lib.format.read_array(cast("BinaryIO", member), allow_pickle=False)


def _check_header(stream: BinaryIO, n_bytes: int) -> None:
    """Refuse an array whose header cannot be true, before NumPy trusts it."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"it has version {version} of the format")
    read = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
    shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("Python objects")
    whole = all(type(length) is int and 0 <= length < 2**53 for length in shape)
    if not whole or math.prod(shape) * dtype.itemsize > n_bytes - stream.tell():
        raise ValueError(
            f"its header says that it is of shape {shape} and type {dtype}, which its {n_bytes:,} "
            "bytes cannot hold"
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
        told = str(error)
        if "max_header_size" in told:
            told = "its header is too long for an array of numbers or texts"
        elif "allow_pickle" in told or "Python objects" in told:
            raise ValueError(
                f"{where} holds Python objects. Store labels and classes as numbers or fixed-width "
                "strings, not as objects."
            ) from None
        raise ValueError(f"{where} cannot be read: {told}; write it again.") from None


def _decoded(array: NDArray[Any]) -> NDArray[Any]:
    """Turn bytes into text."""
    return as_text(array) if array.dtype.kind == "S" else array


def _written_type(values: NDArray[Any]) -> np.dtype[Any]:
    """Return the type of adapted predictions: the file's own, or float64 if that is integer."""
    return values.dtype if values.dtype.kind == "f" else float_type(values.dtype)


def _matrix(array: NDArray[Any], where: str) -> NDArray[Any]:
    if array.ndim == 1 and are_numbers(array.dtype):
        return array[:, None]  # the probability of a positive class
    if array.ndim != 2 or not are_numbers(array.dtype):
        raise ValueError(
            f"{where} must be a matrix of numbers (rows, classes); got shape {array.shape} of "
            f"{array.dtype}."
        )
    return array
