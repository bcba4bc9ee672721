"""Read pickled arrays and PyTorch files without unpickling them.

A pickle is a program for a machine with a stack. Python's own machine calls whatever the program
names, and NumPy trusts every state that it is handed. The machines here know only the instructions
that the expected files consist of. They import nothing and call nothing: what a file names stays a
name, and arrays are made here, from bytes that were counted.

`read_arrays` reads the batches of CIFAR's Python archives. `read_tensors` reads what PyTorch wrote,
without PyTorch: a pickle of containers and of descriptions of tensors, beside the tensors' plain
bytes. Since 2020 both are members of a zip archive; before that they followed each other in a file.
"""

import io
import math
import pickletools
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
NUMBERS = ("BININT", "BININT1", "BININT2", "LONG1")
TEXTS = ("BINSTRING", "SHORT_BINSTRING", "BINUNICODE")
"""Texts of Python 2 are read as latin-1, whatever they hold."""

TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}

NAMES = {
    "numpy.core.multiarray _reconstruct": "array",
    "numpy._core.multiarray _reconstruct": "array",
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
    "_codecs encode": "encode",
}
"""What a file may name, and the word that stands for it here."""

BYTE_TYPE = (3, "|", None, None, None, -1, -1, 0)
"""The state of NumPy's dtype of unsigned bytes."""


@dataclass(frozen=True)
class _Name:
    """A name in the file."""

    word: str


@dataclass(eq=False)
class _Made:
    """An array or a dtype that the file asks for; its state comes later."""

    word: str
    state: Any = None


CALLS: dict[tuple[Any, ...], _Name] = {
    ("u1", False, True): _Name("dtype"),  # Python 2 wrote 0 and 1, which compare equal
    (_Name("ndarray"), (0,), "b"): _Name("array"),
}
"""The only arguments with which dtypes and arrays may be asked for."""


def read_arrays(content: bytes, name: str) -> dict[str, Any]:
    """Return what a pickled dictionary of lists, texts, numbers and arrays of bytes holds.

    Parameters
    ----------
    content : bytes
    name : str
        Name of the file, for messages.

    Examples
    --------
    >>> import pickle
    >>> read_arrays(pickle.dumps({"labels": [1, 2]}, protocol=2), "a")
    {'labels': [1, 2]}
    """
    try:
        found = Machine().run(content)
        if type(found) is not dict:
            raise ValueError("it holds no dictionary")
        return {
            key: _byte_array(value) if isinstance(value, _Made) else value
            for key, value in found.items()
        }
    except (ValueError, LookupError) as error:
        raise ValueError(
            f"{name} is not a file of arrays and lists like CIFAR's: {_why(error)}. Nothing in it "
            "was run; download it again, or use the binary archive."
        ) from None


def _why(error: Exception) -> str:
    return "it uses what is not there" if isinstance(error, LookupError) else str(error)


class Machine:
    """The stack and the memory that a pickle works on."""

    keys: tuple[type, ...] = (str,)
    """Types of dictionary keys: never one that can be nested without end."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memory: dict[int, Any] = {}

    def run(self, content: bytes | IO[bytes]) -> Any:
        """Follow all instructions; return what they leave on the stack."""
        for instruction, argument, _ in pickletools.genops(content):
            self._follow(instruction.name, argument)
        return self.stack.pop()

    def _follow(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in NUMBERS or name in TEXTS:
            stack.append(argument)
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name in ("BINPUT", "LONG_BINPUT"):
            self.memory[argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self.memory[argument])
        elif name in ("EMPTY_DICT", "EMPTY_LIST"):
            stack.append({} if name == "EMPTY_DICT" else [])
        elif name in TUPLES or name == "TUPLE":
            stack.append(tuple(self._taken(TUPLES.get(name))))
        elif name == "MARK":
            self.marks.append(len(stack))
        elif name in ("APPEND", "APPENDS"):
            values = self._taken(1 if name == "APPEND" else None)
            self._top(list).extend(values)
        elif name in ("SETITEM", "SETITEMS"):
            self._set(self._taken(2 if name == "SETITEM" else None))
        elif name == "GLOBAL":
            stack.append(self.named(argument))
        elif name == "REDUCE":
            named, arguments = self._taken(2)
            stack.append(self.called(named, arguments))
        elif name == "BUILD":
            state = stack.pop()
            self._top(_Made).state = state
        elif name not in ("PROTO", "STOP"):
            raise ValueError(f"it has the instruction {name}")

    def _taken(self, count: int | None) -> list[Any]:
        """Remove some values from the stack, or all since the last mark."""
        at = self.marks.pop() if count is None else len(self.stack) - count
        if not 0 <= at <= len(self.stack):
            raise ValueError("it uses more than there is")
        values = self.stack[at:]
        del self.stack[at:]
        return values

    def _top(self, kind: type) -> Any:
        if type(self.stack[-1]) is not kind:
            raise ValueError("it fills what cannot be filled")
        return self.stack[-1]

    def _set(self, values: list[Any]) -> None:
        keys = values[::2]
        if not all(type(key) in self.keys for key in keys):
            raise ValueError("it has a dictionary with keys that are not text")
        self._top(dict).update(zip(keys, values[1::2], strict=True))

    def named(self, text: str) -> Any:
        """Return what stands for a name in the file."""
        if text not in NAMES:
            raise ValueError(f"it asks for {text.replace(' ', '.')}")
        return _Name(NAMES[text])

    def called(self, named: Any, arguments: Any) -> Any:
        """Return what stands for the result of a call."""
        if named == _Name("encode") and type(arguments) is tuple and len(arguments) == 2:
            text, encoding = arguments  # how Python 3 writes bytes into old pickles
            if type(text) is str and encoding == "latin1":
                return text
        for known, wanted in CALLS.items():
            if named == wanted and arguments == known:
                return _Made(wanted.word)
        raise ValueError("it asks for something other than an array of bytes")


def _byte_array(made: _Made) -> NDArray[np.uint8]:
    """Make the array that a state describes, after checking every part of the state."""
    state = made.state if made.word == "array" else None
    if type(state) is not tuple or len(state) != 5:
        raise ValueError("it has an array without a state")
    _, shape, dtype, by_column, content = state
    if not isinstance(dtype, _Made) or dtype.word != "dtype" or dtype.state != BYTE_TYPE:
        raise ValueError("it has an array that is not of bytes")
    if type(shape) is not tuple or not all(type(n) is int and 0 <= n < 2**31 for n in shape):
        raise ValueError("it has an array without a shape")
    if type(content) is not str:
        raise ValueError("it has an array without content")
    values = np.frombuffer(content.encode("latin1"), np.uint8)
    return values.reshape(shape, order="F" if by_column in (True, 1) else "C")


# PyTorch files

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
"""How files start that are not zip archives."""

REBUILD = "torch._utils _rebuild_tensor_v2"
PARAMETER = "torch._utils _rebuild_parameter"
MAPPING = "collections OrderedDict"


@dataclass(eq=False)
class _Storage:
    """The bytes of one or several tensors; they may come later."""

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


class _TensorMachine(Machine):
    """A machine that also knows tensors."""

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
            self.stack.pop()  # notes that PyTorch adds to a dictionary of weights
            self._top(dict)
        else:
            super()._follow(name, argument)

    def named(self, text: str) -> Any:
        """Return the name, if it is one that tensors need."""
        module, _, name = text.partition(" ")
        if text in (REBUILD, PARAMETER, MAPPING) or (module == "torch" and name in STORAGES):
            return _Name(text)
        raise ValueError(f"it asks for {text.replace(' ', '.')}")

    def called(self, named: Any, arguments: Any) -> Any:
        """Return a description of a tensor, or a dictionary."""
        text = named.word if isinstance(named, _Name) else None
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
        if not isinstance(kind, _Name) or type(key) is not str:
            raise ValueError("it has a tensor without bytes")
        if type(n_values) is not int or n_values < 0:
            raise ValueError("it has a tensor without a length")
        dtype = STORAGES.get(kind.word.partition(" ")[2])
        if dtype is None:
            raise ValueError(f"it has a tensor of {kind.word}")
        return self.storages.setdefault(key, _Storage(key, np.dtype(dtype), n_values))


def read_tensors(path: Path) -> Any:
    """Return what a PyTorch file holds: containers, numbers, texts, and tensors as arrays.

    A file that asks for anything else is refused, and nothing in it is run.
    """
    stream = io.BytesIO(path.read_bytes())
    try:
        zipped = stream.getvalue().startswith(b"PK\x03\x04")
        return _filled(_zipped(stream) if zipped else _sequential(stream), {})
    except MemoryError:
        raise
    except Exception as error:  # zipfile may raise anything on a damaged file
        raise ValueError(
            f"{path} is not a PyTorch file of tensors alone, and nothing else is read: "
            f"{_why(error)}"
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


def _sequential(stream: IO[bytes]) -> Any:
    """Read the older form: five pickles, then the size and the bytes of each tensor."""
    if Machine().run(stream) != MAGIC:
        raise ValueError("it does not start like one")
    Machine().run(stream)  # skip the version
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


def _filled(value: Any, done: dict[int, Any]) -> Any:
    """Replace descriptions of tensors by arrays; what occurs many times is replaced once.

    Lists of a list twice, of a list twice, and so on, would otherwise fill any memory.
    """
    if id(value) not in done:
        done[id(value)] = _replaced(value, done)
    return done[id(value)]


def _replaced(value: Any, done: dict[int, Any]) -> Any:
    if isinstance(value, _Tensor):
        return _array(value)
    if type(value) is dict:
        return {key: _filled(inner, done) for key, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_filled(inner, done) for inner in value)
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
