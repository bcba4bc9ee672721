"""Names and numbers as short text."""

import numpy as np
from numpy.typing import NDArray


def by(method: str | None) -> str:
    """Name the method in a title, if it has a name.

    Examples
    --------
    >>> by("SCM-L"), by(None)
    (' by SCM-L', '')
    """
    return "" if method is None else f" by {method}"


def thinned(n_labels: int, most: int) -> NDArray[np.intp]:
    """Return evenly spaced positions at a round step, at most `most` of them.

    Examples
    --------
    >>> thinned(100, 12)
    array([ 0, 10, 20, 30, 40, 50, 60, 70, 80, 90])
    """
    magnitude = 10 ** np.arange(int(np.log10(max(n_labels, 1))) + 2)
    steps = np.sort(np.outer(magnitude, [1, 2, 5]).ravel())
    step = steps[np.searchsorted(steps * most, n_labels)]
    return np.arange(0, n_labels, step)


def times(ratio: float) -> str:
    """Show how many times as frequent a class became.

    Examples
    --------
    >>> times(0.0312), times(1.25), times(31.4), times(1e-9)
    ('×0.031', '×1.2', '×31', '<×0.01')
    """
    if ratio < 0.01:
        return "<×0.01"
    if ratio >= 10:
        return f"×{ratio:,.0f}"
    return f"×{ratio:.1f}" if ratio >= 0.95 else f"×{ratio:.2g}"
