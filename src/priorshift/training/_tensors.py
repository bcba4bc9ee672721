"""Read files that PyTorch wrote, without PyTorch and without unpickling them.

Such a file is a pickle of containers and of descriptions of tensors, beside the tensors' plain
bytes: since 2020 as members of a zip archive, before that one after the other.
"""

import io
import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from priorshift.io import require_file
from priorshift.training._pickles import Machine

STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
MAGIC = 0x1950A86A20F9469CFC6C
"""With which files begin that are no archives."""

REBUILD = "torch._utils _rebuild_tensor_v2"
PARAMETER = "torch._utils _rebuild_parameter"
MAPPING = "collections OrderedDict"


@dataclass(eq=False)
class _Storage:
    """The bytes of one or several tensors, which may come later."""

    key: str
    dtype: np.dtype[Any]
    n_values: int
    content: bytes = b""


@dataclass(frozen=True, eq=False)
class _Tensor:
    """A view of a storage."""

    storage: _Storage
    offset: Any
    shape: Any
    strides: Any


@dataclass(frozen=True)
class _Named:
    """Something that the file names."""

    text: str


class _TensorMachine(Machine):
    """Knows tensors beside plain values."""

    keys = (str, int)

    def __init__(self) -> None:
        super().__init__()
        self.storages: dict[str, _Storage] = {}

    def _follow(self, name: str, argument: Any) -> None:
        if name == "BINFLOAT":
            self.stack.append(argument)
        elif name == "BINPERSID":
            self.stack.append(self._storage(self.stack.pop()))
        elif name == "BUILD":
            self.stack.pop()  # notes that PyTorch puts beside a dictionary of weights
            self._top(dict)
        else:
            super()._follow(name, argument)

    def named(self, text: str) -> Any:
        """Return the name itself, if it is one that tensors need."""
        module, _, name = text.partition(" ")
        if text in (REBUILD, PARAMETER, MAPPING) or (module == "torch" and name in STORAGES):
            return _Named(text)
        raise ValueError(f"it asks for {text.replace(' ', '.')}")

    def called(self, named: Any, arguments: Any) -> Any:
        """Return a description of a tensor, or a dictionary."""
        text = named.text if isinstance(named, _Named) else None
        if text == MAPPING and arguments == ():
            return {}
        if text == PARAMETER and len(arguments) == 3 and isinstance(arguments[0], _Tensor):
            return arguments[0]
        if text == REBUILD and len(arguments) >= 4 and isinstance(arguments[0], _Storage):
            return _Tensor(*arguments[:4])
        raise ValueError("it asks for something other than a plain tensor")

    def _storage(self, told: Any) -> _Storage:
        if type(told) is not tuple or len(told) < 5 or told[0] != "storage":
            raise ValueError("it has a tensor without bytes")
        _, kind, key, _, n_values = told[:5]
        if not isinstance(kind, _Named) or type(key) is not str:
            raise ValueError("it has a tensor without bytes")
        if type(n_values) is not int or n_values < 0:
            raise ValueError("it has a tensor of no length")
        dtype = STORAGES.get(kind.text.partition(" ")[2])
        if dtype is None:
            raise ValueError(f"it has a tensor of {kind.text}")
        return self.storages.setdefault(key, _Storage(key, np.dtype(dtype), n_values))


def read_tensors(path: Path) -> Any:
    """Return what a PyTorch file holds: containers, numbers, texts, and tensors as arrays.

    A file that asks for anything else is refused, and nothing of it is run.
    """
    require_file(path)
    stream = io.BytesIO(path.read_bytes())
    try:
        zipped = stream.getvalue().startswith(b"PK\x03\x04")
        return _filled(_zipped(stream) if zipped else _in_a_row(stream))
    except MemoryError:
        raise
    except Exception as error:  # zipfile may raise anything on a damaged file
        told = "it takes what is not there" if isinstance(error, LookupError) else error
        raise ValueError(
            f"{path} is not a PyTorch file of tensors alone, and nothing else is read: {told}"
        ) from None


def _zipped(stream: IO[bytes]) -> Any:
    machine = _TensorMachine()
    with zipfile.ZipFile(stream) as archive:
        (pickled,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        folder = pickled.removesuffix("data.pkl")
        if f"{folder}byteorder" in archive.namelist():
            _require_little(archive.read(f"{folder}byteorder") == b"little")
        found = machine.run(archive.read(pickled))
        for storage in machine.storages.values():
            storage.content = archive.read(f"{folder}data/{storage.key}")
    return found


def _in_a_row(stream: IO[bytes]) -> Any:
    """Read the older form: five pickles, then the number of values and the bytes of each tensor."""
    if Machine().run(stream) != MAGIC:
        raise ValueError("it does not begin as one")
    Machine().run(stream)  # a version
    _require_little(_TensorMachine().run(stream).get("little_endian") is True)
    machine = _TensorMachine()
    found = machine.run(stream)
    for key in Machine().run(stream):
        storage = machine.storages[key]
        stream.read(8)
        storage.content = stream.read(storage.n_values * storage.dtype.itemsize)
    return found


def _require_little(little: bool) -> None:
    if not little:
        raise ValueError("its numbers are not in little-endian order")


def _filled(value: Any) -> Any:
    """Put arrays where tensors were described."""
    if isinstance(value, _Tensor):
        return _array(value)
    if type(value) is dict:
        return {key: _filled(inner) for key, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_filled, value))
    return value


def _array(tensor: _Tensor) -> NDArray[Any]:
    storage, shape, strides = tensor.storage, tensor.shape, tensor.strides
    whole = (tensor.offset, *shape, *strides)
    if not all(type(number) is int and 0 <= number < 2**53 for number in whole):
        raise ValueError("it has a tensor without a shape")
    values = np.frombuffer(storage.content, storage.dtype)
    last = tensor.offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if math.prod(shape) and (last >= values.size or math.prod(shape) > values.size):
        raise ValueError("it has a tensor that is larger than its bytes")
    steps = [step * values.itemsize for step in strides]
    start = values[min(tensor.offset, values.size) :]
    return np.lib.stride_tricks.as_strided(start, shape, steps, writeable=False).copy()
