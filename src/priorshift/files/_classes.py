"""Which column is which class, where several files belong together."""

from collections.abc import Mapping, Sequence

import numpy as np

from priorshift.border import HEAD_ROWS, SUM_TOLERANCE, rounding
from priorshift.border.columns import (
    POSITIVE_NAMES,
    among_others,
    match_columns,
    misspelt,
    without_point,
)
from priorshift.exceptions import argument
from priorshift.files._base import PredictionFile
from priorshift.text import some


def by_class(
    tables: Sequence[PredictionFile],
    known: Sequence[str],
    columns: Mapping[str, str] | None = None,
    positive: str | None = None,
    *,
    renormalise: bool = False,
) -> tuple[tuple[PredictionFile, ...], str]:
    """Return tables that belong together, their columns called by classes, and what was assumed.

    Parameters
    ----------
    tables : sequence of PredictionFile
    known : sequence of str
        Classes to look for, by name or with a common prefix and suffix: the labels of validation.
    columns : mapping from class to column, optional
        If the caller says so.
    positive : str, optional
        The class whose probability the only column is.
    renormalise : bool, default=False
        Whether rows are divided by their sums.
    """
    common: list[str] = []
    found: list[Mapping[str, str] | None] = []
    n_named = 0
    for table in tables:
        if table.is_table:
            there = dict.fromkeys(table.names or ())
            common = [name for name in common if name in there] if n_named else list(there)
            n_named += 1
        found.append(match_table(table, known) if columns is None and positive is None else columns)
    remark, binary, single = "", None, positive is not None
    if columns is None and positive is None:
        if n_named < len(tables):
            single = all(table.single for table in tables)
        else:
            two = len(known) == 2 and len(_probability_columns(tables, common)) == 1
            single = len(common) == 1 or two
        single = single and not any(found)
        as_called = all(not each or list(each) == list(each.values()) for each in found)
        if not single and as_called:  # no column is called otherwise than its class
            found = [None] * len(tables)
            usable = all(table.is_table and table.kind == "proba" for table in tables)
            if usable and not set(common) <= set(known):
                far = rounding(len(known)) if renormalise and known else SUM_TOLERANCE
                classes = among_others(common, known, tables[0].head(HEAD_ROWS, common), far)
                # numbers that are no class, such as an id: only without them, rows sum to 1
                if others := [name for name in common if name not in classes]:
                    found = [{name: name for name in classes}] * len(tables)
                    remark = (
                        f"Not taken as classes: {some(others)}. Rows sum to 1 without them, and no "
                        "label has their name."
                    )
    if single:
        column = None if columns is None else next(iter(columns.values()))
        column, binary = _one_column(tables, common, known, column, positive)
        found = [None if column is None else {binary[1]: column}] * len(tables)
        if positive is None:
            what = "its only column" if column is None else repr(column)
            remark = (
                f"{tables[0].where}: {what} is taken as the probability of class {binary[1]!r}."
            )
    renormalise = renormalise and binary is None
    files = [
        table.meant(names if table.is_table else None, binary=binary, renormalise=renormalise)
        for table, names in zip(tables, found, strict=True)
    ]
    return tuple(files), remark


def match_table(table: PredictionFile, known: Sequence[str]) -> dict[str, str] | None:
    """Match columns to classes; None where they do not match, or have no names."""
    if table.names is None:
        return None
    try:
        return match_columns(table.names, known)
    except ValueError as error:
        choose = argument("class_columns", "classes=")
        raise ValueError(f"{table.where}: {error} Use {choose}.") from None


def _probability_columns(tables: Sequence[PredictionFile], common: Sequence[str]) -> Sequence[str]:
    """Return the columns that may hold probabilities: an id or an age does not."""
    if not common or any(table.kind == "logits" for table in tables):
        return common
    heads = [table.head(HEAD_ROWS, common) for table in tables]
    fine = np.all([((head >= 0) & (head <= 1)).all(axis=0) for head in heads], axis=0)
    return [name for name, good in zip(common, fine, strict=True) if good]


def _one_column(
    tables: Sequence[PredictionFile],
    common: Sequence[str],
    known: Sequence[str],
    column: str | None,
    positive: str | None,
) -> tuple[str | None, tuple[str, str]]:
    """Find the only column, and the negative and the positive class that it tells apart.

    An array that stores two classes names them; else the header or the labels may.
    """
    named = [table for table in tables if table.is_table]
    if column is None and named:
        if len(common) > 1:
            common = _probability_columns(named, common)
        if len(common) != 1:
            raise ValueError(
                f"{named[0].where} has {len(common)} columns that may hold the probability "
                f"({some(common)}); say which one it is: "
                f"{argument('class_columns', 'classes=')} {known[-1] if known else '1'}=COLUMN."
            )
        column = common[0]
    stored = next((t.names for t in tables if not t.is_table and t.names is not None), ())
    if len(stored) == 2:
        known, positive = stored, positive or stored[1]
    names = without_point(known) or tuple(known)
    if positive is None and set(names) in ({"0", "1"}, {"-1", "1"}, {"False", "True"}):
        positive = max(names)
    if positive is None:
        what = tables[0].where if column is None else f"{column!r} in {tables[0].where}"
        read = [table for table in named if table.kind == "proba"]
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
        raise ValueError(
            f"{argument('positive_class')} {positive} is none of the labels, which are "
            f"{some(names)}."
        )
    if len(others) > 1:
        raise ValueError(
            f"one column of predictions needs two classes, but the labels are {some(names)}; give "
            f"one column per class, or correct {argument('positive_class')} {positive}."
        )
    for table in tables:
        if not table.is_table and not table.single:
            raise ValueError(
                f"{table.where} has several columns of predictions; "
                f"{argument('positive_class')} is for one."
            )
    implied = {"1": "0", "True": "False", "true": "false", "yes": "no"}
    return column, (others[0] if others else implied.get(positive, f"not {positive}"), positive)


def common_classes(tables: Sequence[PredictionFile]) -> tuple[str, ...] | None:
    """Settle the classes of tables whose columns are called by them; None where none has names.

    They are those that an array names; otherwise the numeric columns that all have in common. The
    first that has names settles their order.
    """
    named = [table for table in tables if table.names is not None]
    if not named:
        return None
    array = next((table for table in named if not table.is_table), None)
    wanted = set((array or named[0]).names or ())
    for table in named:
        names = set(table.names or ())
        if array is None:
            wanted &= names
        elif not wanted <= names or (names != wanted and not table.is_table):
            raise ValueError(say_different([array, table]))
    if not wanted:
        raise ValueError(say_different(named))
    return tuple(name for name in named[0].names or () if name in wanted)


def say_different(tables: Sequence[PredictionFile]) -> str:
    """Say that the classes of the first table are not those of the last."""
    one, other = (
        f"{table.where} ({some(table.names, 20) if table.names else 'no numeric column'})"
        for table in (tables[0], tables[-1])
    )
    return (
        f"the classes of {one} are not those of {other}; rename the columns, or choose with "
        f"{argument('class_columns', 'classes=')}. {_spelling((tables[0], tables[-1]))}".rstrip()
    )


def explain_classes(tables: Sequence[PredictionFile], classes: Sequence[str] | None) -> str:
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


def _spelling(tables: Sequence[PredictionFile]) -> str:
    """Suggest the column that another table calls nearly as the first does."""
    for table in tables[1:]:
        said = misspelt(table.header, tables[0].names or ()) if table.is_table else ""
        if said:
            return f"{table.where}: {said}"
    return ""
