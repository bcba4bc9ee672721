"""Which column is which class: of a frame, and of files that belong together.

A header may add something to the class names: `p_cat`, `cat_prob`, `score.cat`.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from priorshift._typing import Floats, Labels
from priorshift.exceptions import argument
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
    wanted = wanted if found.keys() >= set(wanted) else [*_without_point(wanted)]
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
    for names in filter(None, (classes, _without_point(classes))):
        if set(names) <= set(columns):
            return {name: name for name in columns}
        found = [_of_form(columns, *form) for form in _forms(columns, names)]
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


def _forms(columns: Sequence[str], classes: Collection[str]) -> list[tuple[str, str]]:
    """Find pairs of prefix and suffix that make a column of every class."""
    probe = max(classes, key=len)  # the longest occurs in the fewest columns by chance
    present = set(columns)
    candidates = dict.fromkeys(form for name in columns for form in _around(name, probe))
    return [
        (prefix, suffix)
        for prefix, suffix in candidates
        if all(
            prefix + name + suffix in present and _stands_apart(prefix, name, suffix)
            for name in classes
        )
    ]


def _around(column: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield what stands before and after each occurrence of a name."""
    at = column.find(name)
    while at >= 0:
        yield column[:at], column[at + len(name) :]
        at = column.find(name, at + 1)


def _of_form(columns: Sequence[str], prefix: str, suffix: str) -> dict[str, str]:
    """Return all columns with a prefix and a suffix, by what stands between."""
    found = {}
    for column in columns:
        name = column[len(prefix) : len(column) - len(suffix)]
        if prefix + name + suffix == column and _stands_apart(prefix, name, suffix):
            found[name] = column
    return found


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


# Tables: which of their columns are which class, where several belong together


class NamedTable(Protocol):
    """What tells which columns of a file are classes."""

    @property
    def where(self) -> str:
        """What messages call it."""

    @property
    def header(self) -> Sequence[str]:
        """All names."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """The possible class columns: numeric ones, or classes that an array names."""

    @property
    def is_table(self) -> bool:
        """Whether the classes must be found among its columns."""

    @property
    def single(self) -> bool:
        """Whether there is one column of predictions only."""

    @property
    def kind(self) -> Literal["proba", "logits"]:
        """What the predictions are."""

    def head(self, n_rows: int, names: Sequence[str] | None = None) -> Floats:
        """Read the predictions of the first rows."""


class ClassColumns(NamedTuple):
    """Per table the column of each class, None for all as they are; or two classes of one column.

    `binary` are the negative and the positive class, whose probability the column is. `remark` says
    what was assumed.
    """

    columns: list[Mapping[str, str] | None]
    binary: tuple[str, str] | None = None
    remark: str = ""


def find_class_columns(
    tables: Sequence[NamedTable],
    known: Sequence[str],
    far: float,
    columns: Mapping[str, str] | None = None,
    positive: str | None = None,
) -> ClassColumns:
    """Find the class columns of tables that belong together.

    Parameters
    ----------
    tables : sequence of NamedTable
    known : sequence of str
        Classes to look for, by name or with a common prefix and suffix: the labels of validation.
    far : float
        How far rows may be from a sum of 1.
    columns : mapping from class to column, optional
        If the caller says so.
    positive : str, optional
        The class whose probability the only column is.
    """
    common = _common(tables)
    if positive is None and columns is not None:
        return ClassColumns([columns] * len(tables))
    if positive is None:
        found = [match_table(table, known) for table in tables]
        alone = [table.single for table in tables]
        if all(table.is_table for table in tables):
            two = len(known) == 2 and len(_probability_columns(tables, common)) == 1
            alone = [len(common) == 1 or two]
        if any(each and list(each) != list(each.values()) for each in found):
            return ClassColumns([*found])
        if any(found) or not all(alone):
            return _without_others(tables, common, known, far)
    return _one_column(tables, known, columns, positive)


def _common(tables: Sequence[NamedTable]) -> list[str]:
    """Return the possible class columns that all tables have, in the order of the first."""
    others = [set(table.names or ()) for table in tables[1:]]
    return [name for name in tables[0].names or () if all(name in names for names in others)]


def match_table(table: NamedTable, known: Sequence[str]) -> dict[str, str] | None:
    """Match columns to classes; None where they do not match, or have no names."""
    if table.names is None:
        return None
    try:
        return match_columns(table.names, known)
    except ValueError as error:
        choose = argument("class_columns", "classes=")
        raise ValueError(f"{table.where}: {error} Use {choose}.") from None


def _without_point(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of whole numbers without a point, as in 1.0; none if there are others."""
    try:
        return tuple(as_text(np.array(names, dtype=np.float64)).tolist())
    except (ValueError, OverflowError):
        return ()


def _without_others(
    tables: Sequence[NamedTable], common: Sequence[str], known: Sequence[str], far: float
) -> ClassColumns:
    """Leave out numbers that are no class, such as an id: only without them, rows sum to 1."""
    everything = ClassColumns([None] * len(tables))
    usable = all(table.is_table and table.kind == "proba" for table in tables)
    if not usable or set(common) <= set(known):
        return everything
    classes = among_others(common, known, tables[0].head(HEAD_ROWS, common), far)
    others = [name for name in common if name not in classes]
    if not others:
        return everything
    remark = (
        f"Not taken as classes: {some(others)}. Rows sum to 1 without them, and no label has their "
        "name."
    )
    return ClassColumns([{name: name for name in classes}] * len(tables), remark=remark)


def _probability_columns(tables: Sequence[NamedTable], common: Sequence[str]) -> Sequence[str]:
    """Return the columns that may hold probabilities: an id or an age does not."""
    if not common or any(table.kind == "logits" for table in tables):
        return common
    heads = [table.head(HEAD_ROWS, common) for table in tables]
    fine = np.all([((head >= 0) & (head <= 1)).all(axis=0) for head in heads], axis=0)
    return [name for name, good in zip(common, fine, strict=True) if good]


def _one_column(
    tables: Sequence[NamedTable],
    known: Sequence[str],
    columns: Mapping[str, str] | None,
    positive: str | None,
) -> ClassColumns:
    """Find the only column of each table, and the two classes that it tells apart."""
    named = [table for table in tables if table.is_table]
    column = None if columns is None else next(iter(columns.values()))
    if column is None and named:
        common: Sequence[str] = _common(named)
        if len(common) > 1:
            common = _probability_columns(named, common)
        if len(common) != 1:
            raise ValueError(
                f"{named[0].where} has {len(common)} columns that may hold the probability "
                f"({some(common)}); say which one it is: "
                f"{argument('class_columns', 'classes=')} {known[-1] if known else '1'}=COLUMN."
            )
        column = common[0]
    binary = _two_classes(tables, known, positive, column)
    for table in tables:
        if not table.is_table and not table.single:
            raise ValueError(
                f"{table.where} has several columns of predictions; "
                f"{argument('positive_class')} is for one."
            )
    remark = ""
    if positive is None:
        what = "its only column" if column is None else repr(column)
        remark = f"{tables[0].where}: {what} is taken as the probability of class {binary[1]!r}."
    of = None if column is None else {binary[1]: column}
    return ClassColumns([of if table.is_table else None for table in tables], binary, remark)


def _two_classes(
    tables: Sequence[NamedTable], known: Sequence[str], positive: str | None, column: str | None
) -> tuple[str, str]:
    """Name the negative and the positive class: by what an array stores, the header, or labels."""
    stored = next((t.names for t in tables if not t.is_table and t.names is not None), ())
    if len(stored) == 2:
        known, positive = stored, positive or stored[1]
    names = _without_point(known) or tuple(known)
    if positive is None and len(names) == 2:
        named = [n for n in names if column is not None and match_columns([column], [n])]
        if len(named) == 1:
            positive = named[0]
        elif set(names) in ({"0", "1"}, {"-1", "1"}, {"False", "True"}):
            positive = max(names)
    if positive is None:
        what = tables[0].where if column is None else f"{column!r} in {tables[0].where}"
        read = [table for table in tables if table.is_table and table.kind == "proba"]
        if column is not None and read and not _probability_columns(read, [column]):
            raise ValueError(
                f"{tables[0].where} has no probabilities: its only numbers, {column!r}, are not "
                "from 0 to 1. If there are decisions only, name their column with "
                f"{argument('y_pred_val')}."
            )
        likely = [name for name in names if name.lower() in POSITIVE_NAMES]
        hint = f"{argument('positive_class')} {' or '.join(likely or names or ['1'])}"
        raise ValueError(
            f"{what} is one column of predictions, and nothing says of which class; give one "
            f"column per class, or say whose probability it is: {hint}."
        )
    others = [name for name in names if name != positive]
    if len(names) == 2 and len(others) == 2:
        close = [name for name in names if name.lower() == positive.lower()]
        hint = f" Did you mean {close[0]}?" if close else ""
        raise ValueError(
            f"{argument('positive_class')} {positive} is none of the labels, which are "
            f"{some(names)}.{hint}"
        )
    if len(others) > 1:
        raise ValueError(
            f"one column of predictions needs two classes, but the labels are {some(names)}; give "
            f"one column per class, or correct {argument('positive_class')} {positive}."
        )
    implied = {"1": "0", "True": "False", "true": "false", "yes": "no"}
    return (others[0] if others else implied.get(positive, f"not {positive}")), positive


def common_classes(tables: Sequence[NamedTable]) -> tuple[str, ...] | None:
    """Settle the classes of tables whose columns are called by them; None where none has names.

    They are those that an array names; otherwise the numeric columns that all have in common. The
    first that has names settles their order.
    """
    named = [(table, table.names) for table in tables if table.names is not None]
    if not named:
        return None
    fixed = [each for each in named if not each[0].is_table]
    wanted = set(fixed[0][1]) if fixed else set(named[0][1]).intersection(*(n for _, n in named))
    for table, names in named if fixed else ():
        if wanted - set(names) if table.is_table else wanted ^ set(names):
            raise ValueError(say_different([fixed[0][0], table]))
    if not wanted:
        raise ValueError(say_different([table for table, _ in named]))
    return tuple(name for name in named[0][1] if name in wanted)


def say_different(tables: Sequence[NamedTable]) -> str:
    """Say that the classes of the first table are not those of the last."""
    one, other = (
        f"{table.where} ({some(table.names, 20) if table.names else 'no numeric column'})"
        for table in (tables[0], tables[-1])
    )
    return (
        f"the classes of {one} are not those of {other}; rename the columns, or choose with "
        f"{argument('class_columns', 'classes=')}. {_spelling((tables[0], tables[-1]))}".rstrip()
    )


def explain_classes(tables: Sequence[NamedTable], classes: Sequence[str] | None) -> str:
    """Say which columns were taken as classes, and which were not, as a help after an error."""
    if classes is None:
        return ""
    parts = [_spelling(tables), f"Taken as classes: {some(classes, 20)}."]
    for table in tables:
        others = [name for name in table.names or () if name not in classes]
        if others:
            parts.append(f"Numeric only in {table.where}: {some(others, 20)}.")
    choose = argument("class_columns", "classes=")
    parts.append(f"Name them with {choose}, or CLASS=COLUMN,..., if that is wrong.")
    return " ".join(filter(None, parts))


def _spelling(tables: Sequence[NamedTable]) -> str:
    """Suggest the column that another table calls nearly as the first does."""
    for table in tables[1:]:
        said = misspelt(table.header, tables[0].names or ()) if table.is_table else ""
        if said:
            return f"{table.where}: {said}"
    return ""


# Frames, to be given back


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
