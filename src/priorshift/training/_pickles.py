"""Read the batches of CIFAR's Python archives, which are pickles, without unpickling them.

A pickle is a program for a machine with a stack. Python's own machine calls what the program
names, and NumPy believes every word of the states it is handed. This one knows only the
instructions that CIFAR's files are made of. It imports and calls nothing: what a file names stays
a word, and the one kind of array that CIFAR has is made here, from bytes that were counted.
"""

import pickletools
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
NUMBERS = ("BININT", "BININT1", "BININT2", "LONG1")
TEXTS = ("BINSTRING", "SHORT_BINSTRING", "BINUNICODE")
"""Those of Python 2 come as latin-1, whatever they hold."""

TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}

NAMES = {
    "numpy.core.multiarray _reconstruct": "array",
    "numpy._core.multiarray _reconstruct": "array",
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
    "_codecs encode": "encode",
}
"""What a file may name, and the word it is here."""

BYTE_TYPE = (3, "|", None, None, None, -1, -1, 0)
"""The state of NumPy's type of unsigned bytes."""


@dataclass(frozen=True)
class _Name:
    """Something that the file names."""

    word: str


@dataclass(eq=False)
class _Made:
    """An array, or the type of one, that the file would have made; its state comes later."""

    word: str
    state: Any = None


CALLS: dict[tuple[Any, ...], _Name] = {
    ("u1", False, True): _Name("dtype"),  # Python 2 wrote 0 and 1, which are equal
    (_Name("ndarray"), (0,), "b"): _Name("array"),
}
"""The only arguments with which types and arrays are asked for."""


def read_arrays(content: bytes, name: str) -> dict[str, Any]:
    """Return what a pickled dictionary of lists, texts, numbers and arrays of bytes holds.

    Parameters
    ----------
    content : bytes
    name : str
        What messages call the file.

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
            key: _array(value) if isinstance(value, _Made) else value
            for key, value in found.items()
        }
    except (ValueError, LookupError) as error:
        told = "it takes what is not there" if isinstance(error, LookupError) else error
        raise ValueError(
            f"{name} is not a file of arrays and lists, as CIFAR's are: {told}. Nothing of it was "
            "run; fetch it again, or take the binary archive."
        ) from None


class Machine:
    """The stack and the memory that a pickle works with."""

    keys: tuple[type, ...] = (str,)
    """What dictionaries may be keyed by: never what may be nested without end."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memory: dict[int, Any] = {}

    def run(self, content: bytes | IO[bytes]) -> Any:
        """Follow the instructions to the end; return what they leave."""
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
        """Take some values from the stack, or all since the last mark."""
        at = self.marks.pop() if count is None else len(self.stack) - count
        if not 0 <= at <= len(self.stack):
            raise ValueError("it takes more than there is")
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
            raise ValueError("it has a dictionary with keys that are no texts")
        self._top(dict).update(zip(keys, values[1::2], strict=True))

    def named(self, text: str) -> Any:
        """Return what stands for something that the file names."""
        if text not in NAMES:
            raise ValueError(f"it asks for {text.replace(' ', '.')}")
        return _Name(NAMES[text])

    def called(self, named: Any, arguments: Any) -> Any:
        """Return what stands for the result of a call."""
        if named == _Name("encode") and type(arguments) is tuple and len(arguments) == 2:
            text, encoding = arguments  # so does Python 3 write bytes into old pickles
            if type(text) is str and encoding == "latin1":
                return text
        for known, wanted in CALLS.items():
            if named == wanted and arguments == known:
                return _Made(wanted.word)
        raise ValueError("it asks for something other than an array of bytes")


def _array(made: _Made) -> NDArray[np.uint8]:
    """Make the array that a state describes, if every part of that is as it must be."""
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
