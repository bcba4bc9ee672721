"""What all results share: nobody changes them by accident, they hold no NaN, and become frames."""

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np

from priorshift.exceptions import require
from priorshift.text import plain, text_table


class FrozenArrays:
    """Base of frozen dataclasses whose arrays are copied, and read-only, also after unpickling.

    A NaN is refused: see `refuse_nan`.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, eq=False)
    ... class Found(FrozenArrays):
    ...     priors: np.ndarray
    >>> Found(np.ones(2)).priors.flags.writeable
    False
    """

    def __post_init__(self) -> None:
        refuse_nan(self)
        for name in _names(type(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                frozen = value.copy()
                frozen.setflags(write=False)
                object.__setattr__(self, name, frozen)

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild through `__init__`: NumPy's own pickles forget that arrays are read-only."""
        return type(self), tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]


class Finding(FrozenArrays):
    """What findings share: plain values on demand, and a sentence above the numbers.

    What to do about a finding is for `assess` to say.
    """

    also: ClassVar[tuple[str, ...]] = ("rejected", "sentence")
    """Properties that `to_dict` has beside the fields."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON; vectors become mappings from class."""
        named: dict[str, Any] = {}
        for name in (*(field.name for field in fields(self)), *self.also):  # type: ignore[arg-type]
            value = getattr(self, name)
            if hasattr(value, "to_dict"):
                value = value.to_dict()
            elif isinstance(value, np.ndarray) and name != "classes":
                value = dict(zip(self.classes.tolist(), value, strict=True))  # type: ignore[attr-defined]
            named[name] = plain(value)
        return named

    def __repr__(self) -> str:
        """Show the sentence, and every number and name as the attribute that holds it."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        rows = [(name, _shown(value)) for name, value in found.items()]
        lines = (f"  {line}" for line in text_table([row for row in rows if row[1]]))
        return "\n".join([f"{type(self).__name__}: {self.sentence}", *lines])  # type: ignore[attr-defined]


def _shown(value: Any) -> str:
    """Write a number, a name or a few of them; nothing for vectors and what is not there."""
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    if value is None or isinstance(value, np.ndarray | Finding):
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def refuse_nan(result: Any) -> None:
    """Raise a ValueError if a field of a dataclass holds a NaN: the last check of all.

    An unknown value in a result is None or infinite, never a NaN, which slips through every
    comparison and which JSON cannot hold.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Found:
    ...     gap: float
    ...
    ...     def __post_init__(self):
    ...         refuse_nan(self)
    >>> Found(float("nan"))
    Traceback (most recent call last):
    ValueError: Found.gap came out as NaN: ...
    """
    for name in _names(type(result)):  # type: ignore[arg-type]
        values = [getattr(result, name)]
        for value in values:  # and in turn what it holds
            if isinstance(value, Mapping):
                values += value.values()
            elif isinstance(value, list | tuple):
                values += value
            array = isinstance(value, np.ndarray)
            floats = value.dtype.kind == "f" if array else isinstance(value, float)
            if floats and np.isnan(value).any():
                raise ValueError(
                    f"{type(result).__name__}.{name} came out as NaN: these data do not determine "
                    "it. Check validation and target for classes without any probability or "
                    "sample, and for priors near 0; add rows, or use another method."
                )


@cache
def _names(result: type) -> tuple[str, ...]:
    """List the fields of a dataclass; small inputs feel the time it takes."""
    return tuple(field.name for field in fields(result))


Backend = Literal["pandas", "polars", "pyarrow"]


def make_frame(columns: dict[str, Any], backend: Backend = "pandas") -> Any:
    """Return the columns as a frame of the named library."""
    require("a frame", "tables", "narwhals", backend)
    import narwhals as nw

    return nw.from_dict(columns, backend=backend).to_native()
