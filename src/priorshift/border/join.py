"""Labels from another table, joined to rows of predictions by a key."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from priorshift._typing import Indices, Labels
from priorshift.border.check import as_native, read_labels
from priorshift.border.columns import Frame, as_text
from priorshift.exceptions import PriorShiftWarning, argument, warn_user
from priorshift.text import brief, some

LABEL_NAMES = (
    "label",
    "labels",
    "y",
    "y_true",
    "true_label",
    "target",
    "class",
    "truth",
    "ground_truth",
    "outcome",
)
"""What columns of labels are often called, the likeliest first."""

EXAMPLES = 3
"""Keys that an error shows."""


class Columns(NamedTuple):
    """A table as its names, and what reads one of its columns."""

    names: Sequence[str]
    read: Callable[[str], Any]
    where: str


def join_labels(frame: Any, labels: Any, on: str | None = None) -> Any:
    """Add labels that stand in another table to a frame of predictions, row by row.

    Every row gets the label of the same key, whatever the order of the two tables. A key that
    occurs twice, or in one of the tables only, raises an error that shows some.

    Parameters
    ----------
    frame : pandas, polars or Arrow frame
        Predictions, one row per sample.
    labels : pandas, polars or Arrow frame; or array-like of shape (n_samples,)
        A column of labels beside a column of keys. A pandas Series is joined by its index; any
        other vector has no key, and is taken row by row.
    on : str, optional
        Name of the key, in both tables; by default the one column that both have, beside the
        labels, whatever its letter case. If there is none and the tables have as many rows, they
        are joined row by row, with a warning.

    Returns
    -------
    frame
        Of the same kind, its rows and columns as they were, with the labels as a further column:
        called as in `labels`, or "label".

    Examples
    --------
    >>> import pandas as pd
    >>> import priorshift as ps
    >>> frame = pd.DataFrame({"file": ["a", "b"], "cat": [0.9, 0.2], "dog": [0.1, 0.8]})
    >>> ps.join_labels(frame, pd.DataFrame({"file": ["b", "a"], "label": ["dog", "cat"]}))
      file  cat  dog label
    0    a  0.9  0.1   cat
    1    b  0.2  0.8   dog

    Every function takes it, with the name of the labels in place of them:

    >>> found = ps.SCML().fit(ps.join_labels(frame, ["cat", "dog"]), "label")
    >>> found.classes_
    array(['cat', 'dog'], dtype='<U3')
    """
    rows, given = as_native(frame, "frame"), as_native(labels, "labels")
    if not hasattr(rows, "columns"):
        raise ValueError(
            "frame must be a pandas, polars or Arrow frame, with one row per sample; got "
            f"{type(frame).__name__}."
        )
    if hasattr(given, "columns"):
        name, found = read_joined(_columns(rows, "frame"), _columns(given, "labels"), on)
    else:
        name = str(getattr(labels, "name", None) or "label")
        found = read_labels(labels, None, "labels")
        if given is not None and hasattr(labels, "index") and hasattr(frame, "index"):
            keys = frame.index.to_numpy(), labels.index.to_numpy()
            found = found[match_rows(*keys, "the index of frame", "the index of labels")]
        elif found.size != len(rows):
            raise ValueError(
                f"labels has {found.size} entries but frame has {len(rows)} rows; give one label "
                "per row, or a frame with a key."
            )
    if name in rows.columns:
        raise ValueError(
            f"frame has a column {brief(name)} already; drop it, or rename one of the two."
        )
    if hasattr(frame, "index") and hasattr(frame, "assign"):  # whatever the index of the frame
        return frame.assign(**{name: found})
    return Frame(rows, (name,)).with_numbers(found[:, None])


def read_joined(
    rows: Columns,
    labels: Columns,
    on: str | None = None,
    label: str | None = None,
    *,
    partial: bool = False,
) -> tuple[str, Labels]:
    """Return the name of the labels, and the labels in the order of other rows: see `join_labels`.

    `label` is the name of the labels if it is known. If the join may be `partial`, a row without a
    partner has no label, an empty text.
    """
    if on is not None:
        for table in (rows, labels):
            if _spelt(on, table) is None:
                raise ValueError(
                    f"{table.where} has no column {brief(on)} to join by; it has "
                    f"{some(table.names)}."
                )
        on = _spelt(on, labels)
    shared = [name for name in labels.names if name in rows.names and name != label]
    shared = shared or [name for name in labels.names if _spelt(name, rows) and name != label]
    if label is None:  # the only column that is no key, or one with such a name
        others = [name for name in labels.names if name not in (shared if on is None else [on])]
        likely = [name for name in LABEL_NAMES if name in (others or labels.names)]
        if len(others) != 1 and not likely:
            remedy = "call it 'label', or keep the key and the labels only"
            raise ValueError(
                f"nothing says which column of {labels.where} holds the labels "
                f"({some(labels.names)}); {argument('label_column', remedy)}."
            )
        label = others[0] if len(others) == 1 else likely[0]
        shared = [name for name in shared if name != label]
    if on is None and len(shared) > 1:
        raise ValueError(
            f"{rows.where} and {labels.where} share several columns ({some(shared)}); say "
            f"which one is the key with {argument('key', 'on=')}."
        )
    found = np.asarray(labels.read(label))
    if on is None and not shared:
        n_rows = np.shape(rows.read(rows.names[0]))[0] if rows.names else found.size
        if n_rows != found.size:
            raise ValueError(
                f"{labels.where} has {found.size} labels but {rows.where} has {n_rows} rows, and "
                "they share no column to join by; add a key to both, such as a file name."
            )
        warn_user(
            f"{rows.where} and {labels.where} share no column, so labels are joined row by row; "
            "name a key if their rows may be in different orders.",
            PriorShiftWarning,
        )
        return label, found
    key = shared[0] if on is None else on
    theirs = _spelt(key, rows) or key
    keys = as_text(np.asarray(labels.read(key)))
    pairs = {pair: at for at, pair in enumerate(zip(keys, as_text(found), strict=True))}
    if len(pairs) < keys.size:  # rows that were copied say the same again
        once = list(pairs.values())
        keys, found = keys[once], found[once]
    at = match_rows(
        rows.read(theirs),
        keys,
        f"{brief(theirs)} in {rows.where}",
        f"{brief(key)} in {labels.where}",
        partial=partial,
    )
    if (at < 0).any():
        return label, np.append(found.astype(object), "")[at]
    return label, found[at]


def match_rows(
    keys: Any, others: Any, where: str, elsewhere: str, *, partial: bool = False
) -> Indices:
    """Find each key among others: which must be the same ones, each once.

    If the match may be `partial`, those without a partner are told, and found at -1.

    Examples
    --------
    >>> match_rows(["a", "b"], ["b", "a"], "rows", "labels")
    array([1, 0])
    """
    wanted, present = (as_text(np.asarray(each)) for each in (keys, others))
    for each, name in ((wanted, where), (present, elsewhere)):
        repeated = [key for key, n in Counter(each.tolist()).items() if n > 1]
        if repeated:
            raise ValueError(
                f"a key must tell rows apart, but {name} repeats {_examples(repeated)}; keep one "
                "row of each."
            )
    lost, spare = np.setdiff1d(wanted, present), np.setdiff1d(present, wanted)
    if lost.size or spare.size:
        sides = [
            f"{_examples(each.tolist())} only in {name}"
            for each, name in ((lost, where), (spare, elsewhere))
            if each.size
        ]
        said = f"the keys differ: {'; '.join(sides)}."
        cases = [np.char.lower(each).tolist() for each in (lost, spare)]
        if not set(cases[0]).isdisjoint(cases[1]):
            said += " Some differ only by letter case: spell them alike."
        if partial and lost.size == wanted.size:
            raise ValueError(f"{said} No key is in both, so no row has a label: correct the keys.")
        if not partial:
            drop = argument("drop_missing", "drop the rows that have no partner")
            raise ValueError(f"{said} Give every row its label: correct the keys, or {drop}.")
        warn_user(f"{said} Rows without a partner are left out.", PriorShiftWarning)
    order = np.argsort(present)
    at = order[np.searchsorted(present, wanted, sorter=order).clip(max=present.size - 1)]
    return np.where(present[at] == wanted, at, -1)


def _spelt(name: str, table: Columns) -> str | None:
    """Return what a table calls a column, perhaps in other letter case; None if it has none."""
    alike = [each for each in table.names if str(each).lower() == str(name).lower()]
    return name if name in alike else alike[0] if len(alike) == 1 else None


def _columns(frame: Any, where: str) -> Columns:
    return Columns(frame.columns, lambda name: frame[name].to_numpy(), where)


def _examples(keys: Sequence[str]) -> str:
    shown = ", ".join(map(brief, keys[:EXAMPLES]))
    more = len(keys) - EXAMPLES
    return shown if more <= 0 else f"{shown} and {more:,} more"
