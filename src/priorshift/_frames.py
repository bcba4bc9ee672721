"""Frames of the library you work with: made from numbers, or given back with new ones."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np

from priorshift._extras import missing

Backend = Literal["pandas", "polars", "pyarrow"]


def make_frame(columns: dict[str, Any], backend: Backend = "pandas") -> Any:
    """Return the columns as a frame of the named library."""
    try:
        import narwhals as nw

        import_module(backend)
    except ImportError as error:
        raise missing("a frame", error.name or backend, "tables") from None
    return nw.from_dict(columns, backend=backend).to_native()


@dataclass(frozen=True, eq=False)
class Frame:
    """A caller's frame or series, whose numbers can be exchanged; all else stays.

    Attributes
    ----------
    read : narwhals.DataFrame or narwhals.Series
    columns : tuple
        The columns that were read, in the order of `numbers`; empty for a series.
    """

    read: Any
    columns: tuple[Any, ...] = ()

    def with_numbers(self, numbers: Any) -> Any:
        """Return a frame of the caller's kind, with its index and other columns.

        Parameters
        ----------
        numbers : ndarray of shape (n_rows, n_columns), or (n_rows,) for a series

        Examples
        --------
        >>> import narwhals as nw
        >>> import pandas as pd
        >>> mine = pd.DataFrame({"site": ["a", "b"], "x": [1.0, 2.0]}, index=[7, 8])
        >>> Frame(nw.from_native(mine), ("x",)).with_numbers(np.array([[3.0], [4.0]]))
          site    x
        7    a  3.0
        8    b  4.0
        """
        if not self.columns:
            return self._series(self.read.name, numbers)
        import narwhals as nw

        backend = self.read.implementation
        new = [
            nw.new_series(name, np.ascontiguousarray(numbers[:, at]), backend=backend)
            for at, name in enumerate(self.columns)
        ]
        return self.read.with_columns(*new).to_native()

    def _series(self, name: Any, numbers: Any) -> Any:
        import narwhals as nw

        numbers = np.ascontiguousarray(numbers)
        new = nw.new_series(name, numbers, backend=self.read.implementation).to_native()
        old = self.read.to_native()
        return (
            new.set_axis(old.index) if hasattr(old, "index") and hasattr(new, "set_axis") else new
        )
