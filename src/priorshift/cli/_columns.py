"""What the columns of files mean: by options, otherwise by the labels."""

import csv
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

import click
import numpy as np

from priorshift._typing import Labels
from priorshift.border import (
    HEAD_ROWS,
    LABEL_NAMES,
    POSITIVE_NAMES,
    SUM_TOLERANCE,
    among_others,
    as_text,
    match_columns,
    rounding,
    some,
)
from priorshift.cli._console import note
from priorshift.files import ClassView, PredictionFile

NEGATIVE = {"1": "0", "True": "False", "true": "false", "yes": "no"}
"""The class that a positive class implies, if nothing else names it."""

POSITIVE = ({"0", "1"}, {"-1", "1"}, {"False", "True"})
"""Labels that say by themselves which class is the positive one: the larger."""


class Meaning(NamedTuple):
    """What options say about columns: names that are classes, or the column of each, or of one."""

    chosen: tuple[str, ...] | None = None
    columns: Mapping[str, str] | None = None
    positive_class: str | None = None
    renormalise: bool = False

    @classmethod
    def of(
        cls, text: str | None, positive: str | None, renormalise: bool, header: Sequence[str]
    ) -> "Meaning":
        """Read the options; a header tells whether A=B is a column, or a class and its column."""
        if text is None:
            return cls(None, None, positive, renormalise)
        names = parse_names(text)
        pairs = bool(names) and all("=" in n for n in names) and not set(names) <= set(header)
        split = [(name.partition("=")[0].strip(), name.partition("=")[2].strip()) for name in names]
        columns = dict(split) if pairs else {}
        if positive is not None:
            if len(names) != 1 or (pairs and positive not in columns):
                raise click.UsageError(
                    "--positive-class is for one column; name it, and no other, with "
                    "--class-columns."
                )
            return cls(None, {positive: columns.get(positive, names[0])}, positive, renormalise)
        wrong = ""
        if pairs and len(set(columns.values())) < len(names):
            wrong = "must name every class and every column once."
        elif not pairs and (len(set(names)) < len(names) or len(names) < 2):
            wrong = (
                "must name two classes or more, each once. For one column of binary probabilities "
                "write CLASS=COLUMN."
            )
        if wrong:
            raise click.BadParameter(f"{text!r} {wrong}", param_hint="'--class-columns'")
        if not pairs:
            return cls(names, None, None, renormalise)
        return cls(None, columns, split[0][0] if len(names) == 1 else None, renormalise)


def parse_names(text: str) -> tuple[str, ...]:
    """Read names as a line of CSV: one with commas stands in quotes."""
    return tuple(name.strip() for name in next(csv.reader([text], skipinitialspace=True), []))


def by_class(
    files: Sequence[PredictionFile], known: Sequence[str], meaning: Meaning
) -> tuple[PredictionFile, ...]:
    """Return files whose columns are called by their classes.

    `known` are classes to look for: the labels of validation, or those of a saved state.
    """
    if meaning.positive_class is not None:
        return _binary(files, known, meaning)
    columns: list[Mapping[str, str] | None] = [meaning.columns] * len(files)
    if meaning.columns is None and meaning.chosen is None:
        columns = [matched(file, known) for file in files]
        if not any(columns) and _one_column(files, known):
            return _binary(files, known, meaning)
        if all(found is None or list(found) == list(found.values()) for found in columns):
            columns = [_without_others(files, known, meaning)] * len(files)
    return tuple(
        ClassView.of(file, names if file.is_table else None, renormalise=meaning.renormalise)
        for file, names in zip(files, columns, strict=True)
    )


def label_hint(file: PredictionFile) -> str:
    """Suggest a column of labels: one that is spelt alike, or called as labels often are."""
    lower = {name.lower(): name for name in reversed(file.header)}
    found = get_close_matches(str(file.label_column), file.header, 1)
    found += [lower[name] for name in LABEL_NAMES if name in lower]
    found += [name for name in _text_columns(file) if _names_classes(file, name)]
    found = [name for name in found if name != file.label_column]
    return f" Did you mean --label-column {found[0]}?" if found else ""


def _text_columns(file: PredictionFile) -> list[str]:
    """Return the columns of a table that hold something else than numbers."""
    return [n for n in file.header if file.is_table and n not in (file.names or ()) and n]


def _names_classes(file: PredictionFile, column: str) -> bool:
    """Tell whether the cells of a column are classes that other columns are called by."""
    cells = file.vector(column)
    found = () if cells is None else names_of(cells[:HEAD_ROWS])
    try:
        return len(found) > 1 and match_columns(list(file.names or ()), found) is not None
    except ValueError:
        return False


def names_of(labels: Labels | None) -> tuple[str, ...]:
    """Return the distinct labels as text."""
    if labels is None:
        return ()
    return tuple(name for name in np.unique(as_text(labels)).tolist() if name)


def matched(file: PredictionFile, known: Sequence[str]) -> dict[str, str] | None:
    """Match columns to classes; None where they do not match, or have no names."""
    if file.names is None:
        return None
    for names in (known, _whole(known)):
        try:
            found = match_columns(file.names, names)
        except ValueError as error:
            raise ValueError(f"{file.where}: {error} Use --class-columns.") from None
        if found is not None:
            return found
    return None


def _whole(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of whole numbers without a point, as in 1.0; none if there are others."""
    try:
        return tuple(as_text(np.array(names, dtype=np.float64)).tolist())
    except (ValueError, OverflowError):
        return ()


def _without_others(
    files: Sequence[PredictionFile], known: Sequence[str], meaning: Meaning
) -> dict[str, str] | None:
    """Leave out numbers that are no class, such as an id: only without them, rows sum to 1."""
    common = _common(files)
    usable = all(file.is_table and file.kind == "proba" for file in files)
    if not usable or set(common) <= set(known):
        return None
    far = rounding(len(known)) if meaning.renormalise and known else SUM_TOLERANCE
    classes = among_others(common, known, files[0].head(HEAD_ROWS, common), far)
    others = [name for name in common if name not in classes]
    if not others:
        return None
    note(
        f"Not taken as classes: {some(others)}. Rows sum to 1 without them, and no label has "
        "their name."
    )
    return {name: name for name in classes}


def _common(files: Sequence[PredictionFile]) -> list[str]:
    """Return the possible class columns that all files have, in the order of the first."""
    return [
        name
        for name in files[0].names or ()
        if all(name in (file.names or ()) for file in files[1:])
    ]


def _one_column(files: Sequence[PredictionFile], known: Sequence[str]) -> bool:
    """Tell whether the files have one column of predictions in common.

    Beside two labels, that is the only column of tables whose numbers may be probabilities.
    """
    if not all(file.is_table for file in files):
        return all(file.single for file in files)
    common = _common(files)
    columns = common if len(known) != 2 or len(common) == 1 else _probabilities(files)
    return len(columns) == 1


def _probabilities(files: Sequence[PredictionFile]) -> list[str]:
    """Return the columns that may hold probabilities: an id or an age does not."""
    common = _common(files)
    if not common or any(file.kind == "logits" for file in files):
        return common
    heads = [file.head(HEAD_ROWS, common) for file in files]
    fine = np.all([((head >= 0) & (head <= 1)).all(axis=0) for head in heads], axis=0)
    return [name for name, good in zip(common, fine, strict=True) if good]


def _binary(
    files: Sequence[PredictionFile], known: Sequence[str], meaning: Meaning
) -> tuple[PredictionFile, ...]:
    """Return files whose only column is the probability of a positive class."""
    tables = [file for file in files if file.is_table]
    column = None if meaning.columns is None else next(iter(meaning.columns.values()))
    if column is None and tables:
        column = _only_column(tables, known)
    classes = _both(files, known, meaning, column)
    for file in files:
        if not file.is_table and not file.single:
            raise ValueError(
                f"{file.where} has several columns of predictions; --positive-class is for one."
            )
    if meaning.positive_class is None:
        what = "its only column" if column is None else repr(column)
        note(f"{files[0].where}: {what} is taken as the probability of class {classes[1]!r}.")
    return tuple(
        ClassView.of(
            file,
            {classes[1]: column} if file.is_table and column is not None else None,
            binary=classes,
        )
        for file in files
    )


def _only_column(tables: Sequence[PredictionFile], known: Sequence[str]) -> str:
    """Return the one column that tables have in common and that may hold probabilities."""
    common = _common(tables)
    if len(common) > 1:
        common = _probabilities(tables)
    if len(common) != 1:
        example = known[-1] if known else "1"
        raise ValueError(
            f"{tables[0].where} has {len(common)} columns that may hold the probability "
            f"({some(common)}); say which one it is: --class-columns {example}=COLUMN."
        )
    return common[0]


def _both(
    files: Sequence[PredictionFile],
    known: Sequence[str],
    meaning: Meaning,
    column: str | None,
) -> tuple[str, str]:
    """Name the negative and the positive class."""
    stored = next((f.names for f in files if not f.is_table and f.names is not None), None)
    positive = meaning.positive_class
    if stored is not None and len(stored) == 2:
        known = stored
        positive = stored[1] if positive is None else positive
    names = _whole(known) or tuple(known)
    if positive is None:
        positive = _positive(names, column)
    if positive is None:
        what = files[0].where if column is None else f"{column!r} in {files[0].where}"
        likely = [name for name in names if name.lower() in POSITIVE_NAMES]
        example = (likely or list(names) or ["1"])[-1]
        raise ValueError(
            f"{what} is one column of predictions, and nothing says of which class; give one "
            f"column per class, or say whose probability it is: --positive-class {example}."
        )
    others = [name for name in names if name != positive]
    if len(others) > 1:
        raise ValueError(
            f"one column of predictions needs two classes, but the labels are {some(names)}; give "
            f"one column per class, or correct --positive-class {positive}."
        )
    return (others[0] if others else NEGATIVE.get(positive, f"not {positive}")), positive


def _positive(names: Sequence[str], column: str | None) -> str | None:
    """Tell which of two labels a column is the probability of: by its name, or by theirs."""
    if len(names) != 2:
        return None
    if column is not None:
        named = [name for name in names if match_columns([column], [name]) is not None]
        if len(named) == 1:
            return named[0]
    return max(names) if set(names) in POSITIVE else None
