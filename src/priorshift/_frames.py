"""Return numbers as a frame of the library you work with."""

from typing import Any, Literal

Backend = Literal["pandas", "polars", "pyarrow"]


def make_frame(columns: dict[str, Any], backend: Backend = "pandas") -> Any:
    """Return the columns as a frame of the named library."""
    try:
        import narwhals as nw
    except ImportError:
        raise ImportError("frames need narwhals: pip install 'priorshift[tables]'") from None
    return nw.from_dict(columns, backend=backend).to_native()
