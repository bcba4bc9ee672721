"""Priors and costs from the command line: name=value pairs, or a file."""

import csv
import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from priorshift._typing import Labels, Vector
from priorshift.adapt import check_costs, priors_from_labels, priors_from_predictions
from priorshift.border import as_text, check_priors, some
from priorshift.cli._read import match_labels, read_rows, text_labels
from priorshift.files import PredictionFile, match_table, open_predictions

SOURCE = ("source_priors", "source_prior", "priors", "prior", "count", "counts")
TARGET = ("priors", "prior", "source_priors", "count", "counts")
COLUMNS = {
    "--source-priors": SOURCE,
    "--source-label-priors": ("source_label_priors", *SOURCE),
    "--known-priors": TARGET,
    "--priors": TARGET,
}
"""Columns or keys that hold priors, the best first."""


def read_priors(text: str, classes: Labels, option: str, *, logits: bool = False) -> Vector:
    """Read priors in the order of `classes`.

    Parameters
    ----------
    text : str
        `name=value,...` or the name of a file: JSON from class to number (or the output of
        `priorshift estimate --json`); a table with a column of priors or counts and one called
        `class`; an npz with `source_priors`; predictions, whose mean is taken; or labels, which
        are counted.
    classes : ndarray of shape (n_classes,)
        Class names.
    option : str
        The option that named them.
    logits : bool, default=False
        Whether a file of predictions holds logits.
    """
    path = Path(text)
    if not _is_file(text):
        try:
            return check_priors(_from_pairs(text, classes), classes, "the list")
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint=f"'{option}'") from None
    if path.suffix.lower() == ".json":
        found = _from_json(path, option)
    else:
        file = open_predictions(path, logits=logits)
        columns = match_table(file, classes.tolist()) if file.is_table else None
        found = _from_file(file.meant(columns), classes, option)
    return check_priors(found, classes, f"{option} {path}")


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # many pairs are too long for a file's name
        return False


def names_in_pairs(text: str | None) -> tuple[str, ...]:
    """Return the classes that `name=value,...` names; none if it is a file, or nothing."""
    if text is None or "=" not in text or _is_file(text):
        return ()
    return tuple(name for name, _ in _cut(text))


def _cut(text: str) -> list[tuple[str, str]]:
    """Cut `name=value,...` into names and values; a name with commas is quoted, as in CSV."""
    cut = (pair.rpartition("=") for pair in next(csv.reader([text], skipinitialspace=True)))
    return [(name.strip(), value.strip()) for name, _, value in cut]


def _numbers(text: str, form: str) -> dict[str, float]:
    """Read `name=value,...`, which is to have this form."""
    pairs: dict[str, float] = {}
    for name, value in _cut(text):
        if name in pairs:
            raise ValueError(f"{name!r} is named twice.")
        try:
            pairs[name] = float(value)
        except ValueError:
            hint = " Write 0.85 instead of 85%." if value.endswith("%") else ""
            typed = f"{name}={value}" if name else value
            raise ValueError(f"{typed!r} is not {form}.{hint}") from None
    return pairs


def _from_pairs(text: str, classes: Labels) -> Any:
    """Read `name=value,...`.

    The one class that is left out gets what remains of 1. A number alone is the prior of the
    positive class of two.
    """
    if "=" not in text:
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"{text!r} is neither a file nor NAME=VALUE,...") from None
    pairs, names = _numbers(text, "NAME=VALUE with a number"), set(classes.tolist())
    shares, missing = _shares(pairs), names - pairs.keys()
    remainder = 1 - sum(shares.values())
    if shares is pairs and pairs.keys() < names and len(missing) == 1 and 0 <= remainder <= 1:
        return {**shares, missing.pop(): remainder}
    return shares


def _from_json(path: Path, option: str) -> dict[str, float]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}.") from None
    priors = document
    if isinstance(document, dict):
        named = (document.get(name) for name in COLUMNS[option])
        priors = next((found for found in named if isinstance(found, dict)), document)
    numbers = list(priors.values()) if isinstance(priors, dict) else []
    if not numbers or not all(isinstance(number, int | float) for number in numbers):
        raise ValueError(f"{path} must hold an object from class to number.")
    return _shares(priors)


def _from_file(file: PredictionFile, classes: Labels, option: str) -> Any:
    """Read a column of priors beside the classes, or in class order; else predictions or labels."""
    for name in COLUMNS[option]:
        if (column := file.vector(name)) is None:
            continue
        try:
            values = np.array(column.tolist(), dtype=np.float64)
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"column {name!r} of {file.where} must hold numbers: {error}."
            ) from None
        beside = file.vector("class" if file.is_table else "classes")
        if beside is None or beside is column:
            return values
        names = as_text(np.asarray(beside.tolist())).tolist()
        if not names or len(set(names)) != values.size:
            raise ValueError(
                f"{file.where} must name each class once, beside its number in {name!r}."
            )
        return _shares(dict(zip(names, values.tolist(), strict=True)))
    if option == "--source-label-priors":  # mean predictions are not label frequencies
        if (labels := file.vector(file.label_column)) is not None:
            where = f"{file.label_column!r} in {file.where}"
            found = match_labels(text_labels(labels, file, where), classes, where)
            return priors_from_labels(found, classes=classes)
        others = f"no labels (column {file.label_column!r})"
    else:
        if file.names is None or set(classes.tolist()) & set(file.names):
            columns = None if file.names is None else tuple(classes.tolist())
            return priors_from_predictions(read_rows(file, columns, in_memory=True))
        others = f"no predictions of {some(classes.tolist())}"
    hint = ""
    if option == "--source-priors" and file.vector(file.label_column) is not None:
        hint = " Labels are for --source-label-priors."
    raise ValueError(
        f"{file.where} has nothing that {option} can use: no priors (column "
        f"{some(COLUMNS[option])}), {others}; name the column of priors {COLUMNS[option][0]!r}."
        f"{hint}"
    )


def _shares(priors: dict[str, float]) -> dict[str, float]:
    """Turn counts, which are whole numbers, into shares."""
    total = sum(priors.values())
    counts = all(value >= 0 and float(value).is_integer() for value in priors.values())
    if not counts or total <= 1:
        return priors
    return {name: value / total for name, value in priors.items()}


def read_costs(text: str, classes: Labels) -> Vector:
    """Read what errors cost, rows true classes and columns decisions, in the order of `classes`.

    They are typed, as `true:decided=cost,...`, or in a file. A .json file maps true classes to
    decisions to costs. A table has one column per decision, and the true classes in its first
    column.
    """
    path = Path(text)
    pairs: dict[Any, Any]
    try:
        if not _is_file(text):
            pairs = _typed_costs(text, classes)
        elif path.suffix.lower() == ".json":
            found = json.loads(path.read_text(encoding="utf-8"))
            pairs = {true: dict(row) for true, row in found.items()}
        else:
            with path.open(encoding="utf-8-sig", newline="") as stream:
                (_, *decisions), *rows = list(csv.reader(stream))
            pairs = {
                (true, d.strip()): cost
                for true, *row in rows
                for d, cost in zip(decisions, row, strict=True)
            }
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{path} does not hold costs ({error}); write a .csv table with a row per true class "
            'and a column per decision, or .json such as {"ill": {"well": 10}}.'
        ) from None
    try:
        matrix = check_costs(pairs, classes, classes.size)
    except ValueError as error:
        raise ValueError(f"--costs {path}: {error}") from None
    assert matrix is not None
    return matrix


def _typed_costs(text: str, classes: Labels) -> dict[tuple[str, str], float]:
    """Read `true:decided=cost,...`; a class may have a colon in its name."""
    names, form = set(classes.tolist()), "TRUE:DECIDED=COST, such as ill:well=10"
    try:
        found = {}
        for pair, cost in _numbers(text, form).items():
            cuts = [at for at, mark in enumerate(pair) if mark == ":"]
            both = [(pair[:at].strip(), pair[at + 1 :].strip()) for at in cuts]
            if not both:
                raise ValueError(f"{pair!r} is neither a file nor {form}.")
            found[next((each for each in both if set(each) <= names), both[0])] = cost
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--costs'") from None
    return found
