"""Which column is which class, by their names.

A header may add something to the class names: `p_cat`, `cat_prob`, `score.cat`.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from priorshift._typing import Labels
from priorshift.text import brief, some

HEAD_ROWS = 1000
"""Rows that tell whether columns are all classes."""

POSITIVE_NAMES = ("yes", "true", "positive", "pos", "1", "case", "ill", "sick")
NEGATIVE_NAMES = ("no", "false", "negative", "neg", "0", "-1", "control", "well", "healthy")
"""Names that say which of two classes is the positive one."""


def class_columns(
    columns: Sequence[Any], classes: Labels | None = None, labels: Labels | None = None
) -> dict[Any, Any] | None:
    """Find the class columns of a frame, by class and in their order; None for all columns.

    Only those of `classes` if they are known. If only `labels` are known there may be further
    classes.

    Examples
    --------
    >>> class_columns(["id", "dog", "cat"], classes=np.array(["cat", "dog"]))
    {'dog': 'dog', 'cat': 'cat'}
    >>> class_columns(["p_0", "p_1", "p_2", "site"], labels=np.array([0, 1, 1]))
    {'0': 'p_0', '1': 'p_1', '2': 'p_2'}
    """
    by_text = {str(column): column for column in columns}
    known = labels if classes is None else classes
    wanted = [] if known is None else [str(name) for name in np.unique(known).tolist()]
    found = match_columns(list(by_text), wanted)
    if found is None or (classes is None and found.keys() == by_text.keys()):
        return None
    wanted = wanted if found.keys() >= set(wanted) else [*without_point(wanted)]
    # a column named exactly like its class keeps its type: 0 rather than "0"
    return {
        by_text[column] if name == column else name: by_text[column]
        for name, column in found.items()
        if classes is None or name in wanted
    }


def match_columns(columns: Sequence[str], classes: Sequence[str]) -> dict[str, str] | None:
    """Find the column of each class, by name or by a common prefix and suffix.

    Names that are the classes themselves come first. Otherwise, all class columns must share the
    same prefix and suffix, and every class in `classes` must have a column. Columns of the same
    form are classes too, even if `classes` lacks them: validation need not have seen every class.
    Whole numbers may be written with a point: the column of 1.0 may be called 1.

    Returns
    -------
    dict from class to column, in the order of the columns, or None if there is no match

    Examples
    --------
    >>> match_columns(["id", "p_cat", "p_dog", "p_fox"], ["dog", "cat"])
    {'cat': 'p_cat', 'dog': 'p_dog', 'fox': 'p_fox'}
    >>> match_columns(["cat", "dog"], ["dog", "cat"])
    {'cat': 'cat', 'dog': 'dog'}
    >>> match_columns(["id", "score"], ["dog", "cat"])
    """
    for spelt in (tuple, without_point):
        names = spelt(classes)
        if not names:
            continue
        if set(names) <= set(columns):
            return dict(zip(columns, columns, strict=True))
        found = _alike(columns, names)
        if len(found) > 1:
            forms = " or ".join(f"({some(one.values())})" for one in found)
            raise ValueError(
                f"several sets of columns match the classes {some(sorted(names))}: {forms}; "
                "choose one of them by name."
            )
        if found:
            return found[0]
    return None


def among_others(
    numeric: Sequence[Any], known: Collection[str], head: Any, far: float
) -> list[Any]:
    """Return the columns of numbers that are classes, where columns are called as the labels.

    Other numbers may be classes that have no label. They are none, such as an id, if rows sum to 1
    without them only; `head` are the numbers of the first rows, `far` how far a sum may be off.

    Examples
    --------
    >>> rows = [[7.0, 0.9, 0.1], [8.0, 0.2, 0.8]]
    >>> among_others(["id", "cat", "dog"], ["cat", "dog"], rows, 0.001)
    ['cat', 'dog']
    """
    named = [column for column in numeric if str(column) in known]
    numbers = np.asarray(head, np.float64)
    if not numbers.size or len(named) < max(2, len(known)):
        return list(numeric)
    of_named = numbers[:, [str(column) in known for column in numeric]]
    whole, part = ((np.abs(each.sum(axis=1) - 1) <= far).all() for each in (numbers, of_named))
    return named if part and not whole else list(numeric)


def misspelt(columns: Sequence[str], classes: Collection[str]) -> str:
    """Suggest the column of a class that has none, if another has nearly the same spelling.

    Columns of the other classes tell what the header adds to the names of classes.

    Examples
    --------
    >>> misspelt(["p_cat", "p_dog", "p_hores"], ["cat", "dog", "horse"])
    "There is no column 'p_horse'. Did you mean 'p_hores'?"
    >>> misspelt(["p_cat", "p_dog", "age"], ["cat", "dog", "horse"])
    ''
    """
    forms = Counter(
        form
        for name in classes
        for column in columns
        for form in dict.fromkeys(_around(column, name))
        if _stands_apart(form[0], name, form[1])
    )
    if not forms:
        return ""
    prefix, suffix = max(forms, key=lambda form: forms[form])
    expected = [prefix + name + suffix for name in classes]
    others = [column for column in columns if column not in expected]
    for column in expected:
        close = [] if column in columns else get_close_matches(column, others, 1, 0.75)
        if close:
            return f"There is no column {brief(column)}. Did you mean {brief(close[0])}?"
    return ""


def _alike(columns: Sequence[str], classes: Collection[str]) -> list[dict[str, str]]:
    """Find columns of one prefix and suffix that hold every class: by what stands between."""
    probe = max(classes, key=len)  # the longest occurs in the fewest columns by chance
    present, found = set(columns), []
    for prefix, suffix in dict.fromkeys(form for name in columns for form in _around(name, probe)):
        if not all(prefix + name + suffix in present for name in classes):
            continue
        alike = {}
        for column in columns:
            name = column[len(prefix) : len(column) - len(suffix)]
            if prefix + name + suffix == column and _stands_apart(prefix, name, suffix):
                alike[name] = column
        if alike.keys() >= set(classes):
            found.append(alike)
    return found


def _around(column: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield what stands before and after each occurrence of a name."""
    at = column.find(name)
    while at >= 0:
        yield column[:at], column[at + len(name) :]
        at = column.find(name, at + 1)


def _stands_apart(prefix: str, name: str, suffix: str) -> bool:
    """Tell whether a name ends where its column's prefix and suffix begin, and not in a word.

    `p_1` and `p1` hold the class 1, but `p_11` does not, and `scat` holds no cat.
    """
    if not name:
        return False
    before = not prefix or _is_edge(prefix[-1], name[0])
    return before and (not suffix or _is_edge(name[-1], suffix[0]))


def _is_edge(one: str, other: str) -> bool:
    if not one.isalnum() or not other.isalnum():
        return True
    return one.isdigit() != other.isdigit() or (one.islower() and other.isupper())


def as_text(labels: np.ndarray[Any, Any]) -> Labels:
    """Turn labels into text, whole numbers without a point: 2.0 is the class "2"."""
    if labels.dtype.kind == "f":  # whole, and small enough to differ from its neighbours
        whole = (labels == np.round(labels)) & (np.abs(labels) <= 2.0**53)
        labels = labels.astype(np.int64) if whole.all() else labels
    if labels.dtype.kind == "S":
        return np.char.decode(labels, "utf-8")
    return labels.astype(str)


def without_point(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of whole numbers without a point, as in 1.0; none if there are others."""
    try:
        return tuple(as_text(np.array(names, dtype=np.float64)).tolist())
    except (ValueError, OverflowError):
        return ()


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
        import narwhals as nw

        def series(name: Any, column: Any) -> Any:
            column = np.ascontiguousarray(column)
            return nw.new_series(name, column, backend=self.read.implementation)

        if self.columns:
            new = [series(name, numbers[:, at]) for at, name in enumerate(self.columns)]
            return self.read.with_columns(*new).to_native()
        made, old = series(self.read.name, numbers).to_native(), self.read.to_native()
        as_pandas = hasattr(old, "index") and hasattr(made, "set_axis")
        return made.set_axis(old.index) if as_pandas else made
