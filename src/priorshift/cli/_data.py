"""From files to what the library takes: every command opens its data here."""

import csv
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from shutil import copyfileobj
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from priorshift import border
from priorshift._typing import Labels, Vector
from priorshift.adapt import Adapter
from priorshift.assessment import Assessment, Verdicts, assess
from priorshift.cli import _read as read
from priorshift.cli._console import note
from priorshift.cli._options import Request, was_typed
from priorshift.cli._priors import names_in_pairs, read_costs, read_priors
from priorshift.estimators import NoAdaptation, PriorEstimate, PriorEstimator, get_estimator
from priorshift.files import (
    PANDAS_INDEX,
    PredictionFile,
    by_class,
    common_classes,
    explain_classes,
    open_predictions,
)
from priorshift.solvers import ADVICE

CONFIDENCE_LEVEL = 0.95
"""Of the intervals of an assessment, unless another is asked for."""

INTERVAL = (
    *("interval", "standard_error", "confidence_level"),
    *("interval_method", "estimand", "simultaneous"),
)
"""What an estimate says of its interval."""


@dataclass(frozen=True)
class Data:
    """Checked inputs; class names are text.

    Attributes
    ----------
    request : Request
        What the user named.
    classes : ndarray of shape (n_classes,)
    files : tuple of PredictionFile
        Validation, if there is one, and the target.
    target : PredictionFile
        The file to adapt.
    columns : tuple of str or None
        Class columns in the order of `classes`, if they have names.
    labelled : pair of Predictions and ndarray, or None
        Predictions and labels of validation, if there is one.
    given : dict
        What `fit` is told beside the data: priors and classes.
    aim : dict
        What adapting is to improve, as `assess` and Auto take it: costs and goal.
    known_priors : ndarray of shape (n_classes,) or None
    adapter : Adapter or None
        What to apply instead of an estimate.
    in_memory : bool
        Whether the target is read at once even if it is large.
    """

    request: Request
    classes: Labels
    files: tuple[PredictionFile, ...]
    target: PredictionFile
    columns: read.Columns
    labelled: tuple[border.Predictions, Labels] | None
    given: dict[str, Any]
    aim: dict[str, Any]
    known_priors: Vector | None
    adapter: Adapter | None
    in_memory: bool = False

    def validation(self, what: str) -> tuple[border.Predictions, Labels]:
        """Return predictions and labels of validation, which something needs."""
        if self.labelled is None:
            raise click.UsageError(f"{what} needs --validation.")
        return self.labelled

    @cached_property
    def rows(self) -> border.Predictions:
        """The target's probabilities or decisions, checked once; of a large file a table."""
        if self.request.predicted_column is None:
            held = self.in_memory
            return read.read_rows(self.target, self.columns, self.files, in_memory=held)
        decided, where = read.read_decided(self.target, self.request.predicted_column)
        return border.as_decisions(read.match_labels(decided, self.classes, where), self.classes)

    @cached_property
    def target_labels(self) -> NDArray[np.object_] | None:
        """The target's labels, if it has any; None stands for those that are unknown.

        Only in a column or a file that the user named for it may some be unknown.
        """
        if self.request.target_labels is not None:
            return _labels_by_row(self.request.target_labels, self.rows.shape[0], self.classes)
        try:
            text, where = _target_text(self.target, self.request, self.classes)
            known = text != ""
            labels = np.full(text.size, None, dtype=object)
            labels[known] = read.match_labels(text[known], self.classes, where)
        except ValueError as error:
            if self.request.target_label_column is not None:
                raise
            note(f"The target's labels are not used: {error}")
            return None
        return labels if known.any() else None

    def suitable(self, method: str) -> PriorEstimator:
        """Return the method; for decisions, CM-L in place of a default that needs probabilities."""
        estimator = get_estimator(method)
        decisions = self.request.predicted_column is not None
        if decisions and estimator.needs_probabilities and not was_typed("method"):
            return get_estimator("cm-l")
        return estimator

    def fit(self, method: str) -> PriorEstimator:
        """Fit a method to validation or to what is known of the source."""
        estimator = self.suitable(method)
        if self.aim.keys() <= estimator.get_params().keys():
            estimator.set_params(**self.aim)
        try:
            return estimator.fit(*(self.labelled or (None, None)), **self.given)
        except ValueError:
            if self.labelled is not None:
                raise
            raise click.UsageError(
                f"{method} needs --validation here; em and map need only --source-priors, "
                "ppi only --target-label-column."
            ) from None

    def assess(self, method: str | PriorEstimator) -> Assessment | None:
        """Weigh all evidence, by a method or a fitted one; None without validation."""
        if self.labelled is None:
            return None
        groups = None
        if (history := self.request.history_column) is not None:
            groups = read_group_column(self.files[0], history, "--history-column")
        y_proba_val, y_val = self.labelled
        return assess(
            y_proba_val,
            y_val,
            self.rows,
            method=self.fit(method) if isinstance(method, str) else method,
            y_target=self.target_labels,
            groups_val=groups,
            assume_prior_shift=self.request.assume_prior_shift,
            confidence_level=self.request.confidence_level or CONFIDENCE_LEVEL,
            **self.aim,
            **self.given,
        )

    def verdicts(self) -> Verdicts | None:
        """Return what gives a verdict on each part of the target; None without validation."""
        if self.labelled is None:
            return None
        return Verdicts(*self.labelled, self.given["source_label_priors"])

    def estimate(self, method: str) -> tuple[PriorEstimate, Assessment | None]:
        """Estimate the target's priors, and assess them; known ones need neither."""
        if self.adapter is not None:
            return _in_adapter(self.adapter), None
        if self.known_priors is not None:
            return self._known(self.known_priors), None
        estimator, request = self.fit(method), self.request
        found = self.assess(estimator)
        interval: dict[str, Any] = {}
        if request.confidence_level is not None:
            interval["confidence_level"] = request.confidence_level
            interval["interval_method"] = request.interval_method or "auto"
        # a method that can do without labels uses those that the user named for it only: others
        # may be there to judge it by
        needs_labels = estimator.target_labels == "required"
        named = request.target_label_column is not None
        # nothing is estimated twice, unless the assessment saw other labels, saw some rows only, or
        # took all away with its verdict; a method that decides by itself would see the same rows
        if found is not None and (named or estimator.target_labels == "unused"):
            shift = found.estimate
            complete = found.rows_looked_at == found.n_target and shift.strength > 0
            if complete or shift.decision is not None:
                if not interval:
                    nothing: Any = dict.fromkeys(INTERVAL)
                    return replace(shift, **nothing), found
                if shift.interval is not None and interval["interval_method"] == "auto":
                    return shift, found
        if needs_labels and self.target_labels is None:
            raise click.UsageError(
                f"{estimator.name} needs labels of some target rows; name their column with "
                "--target-label-column."
            )
        if needs_labels or (named and estimator.target_labels == "used"):
            labels = self.target_labels
            return estimator.estimate(self.rows, random_state=0, y_target=labels, **interval), found
        if not interval or not estimator.needs_rows:
            return estimator.estimate(self.rows, random_state=0, **interval), found
        # the interval of a sample is wider than that of all rows
        sample = sample_of(self.rows, "The interval is that of")
        bounds = estimator.estimate(sample, random_state=0, **interval)
        whole = bounds if sample is self.rows else estimator.estimate(self.rows)
        return with_bounds(whole, bounds), found

    def _known(self, priors: Vector) -> PriorEstimate:
        """Return the priors that the user gave."""
        source, origin = self.given["source_priors"], "given"
        if source is None and self.labelled is not None:
            fitted = NoAdaptation().fit(*self.labelled, **self.given)
            source, origin = fitted.source_priors_, fitted.source_priors_from_
        if source is None:
            raise click.UsageError(
                "--known-priors need the priors that the model was trained under: give "
                "--source-priors, or --validation drawn as the training set was."
            )
        return PriorEstimate("known", self.classes, priors, source, origin, "direct")


# Estimates


def _in_adapter(adapter: Adapter) -> PriorEstimate:
    """Return the estimate that an adapter carries, as far as it tells."""
    known = adapter.provenance
    status = known.get("status")
    return PriorEstimate(
        str(known.get("method", "adapter")),
        adapter.classes.astype(str),
        adapter.priors,
        adapter.source_priors,
        str(known.get("source_priors_from", "given")),
        status if status in ADVICE else "direct",
        calibrator=adapter.calibration,
        strength=adapter.strength,
    )


def with_bounds(found: PriorEstimate, bounds: PriorEstimate) -> PriorEstimate:
    """Return an estimate with the interval of another, widened to hold it."""
    if bounds.interval is None or bounds is found:
        return found
    lower, upper = bounds.interval.T
    both = np.column_stack([lower.clip(max=found.priors), upper.clip(min=found.priors)])
    about = {name: getattr(bounds, name) for name in INTERVAL}
    return replace(found, **about | {"interval": both})


def sample_of(rows: border.Predictions, what: str) -> border.Predictions:
    """Return an array as it is, and rows drawn from a table; tell what they are for."""
    if not isinstance(rows.values, border.Table):
        return rows
    sample = border.sample_rows(rows.values)
    if sample.shape[0] < rows.shape[0]:
        n, n_all, seed = sample.shape[0], rows.shape[0], border.rows.SAMPLE_SEED
        note(f"{what} {n:,} of the target's {n_all:,} rows, drawn at random (seed {seed}).")
    return border.Predictions.from_checked(sample)


# Files


def open_data(request: Request) -> Data:
    """Open the files, settle the classes, read validation, priors and costs."""
    dashed = [n for n in ("validation", "target", "labels") if str(getattr(request, n)) == "-"]
    if len(dashed) > 1:
        raise click.UsageError(f"only one of --{' and --'.join(dashed)} can be stdin (-).")
    if dashed:  # CSV from stdin is read more than once: it is kept until the command ends
        folder = tempfile.TemporaryDirectory(prefix="priorshift-")
        click.get_current_context().with_resource(folder)
        kept: dict[str, Any] = dict.fromkeys((dashed[0], "stdin"), Path(folder.name, "stdin.csv"))
        with kept["stdin"].open("wb") as stream:
            copyfileobj(sys.stdin.buffer, stream)
        request = replace(request, **kept)
    adapter = None if request.adapter is None else Adapter.from_json(request.adapter)
    if adapter is not None:
        request = replace(request, known_classes=tuple(map(str, adapter.classes.tolist())))
    paths = filter(None, (request.validation, request.target))
    files = tuple(open_file(path, request) for path in paths)
    decided, labels, where, columns = request.predicted_column, None, "", None
    if request.validation is not None:
        labels, _, where = validation_labels(files[0], request)
        given_priors = request.source_priors or request.source_label_priors
        if not (given_priors or files[0].is_table or files[0].vector("source_priors") is None):
            request = replace(request, source_priors=str(files[0].path))
    if decided is None:
        files, columns = settle_columns(request, files, () if labels is None else labels)
    if request.drop_missing:
        first = drop_missing(files[0], columns, decided, labels)
        files = (first, *(drop_missing(file, columns, decided) for file in files[1:]))
        labels = labels if labels is None or first.kept is None else labels[first.kept]
    labelled = None
    if labels is None and decided is None:
        classes = name_classes(columns, files[0], None)
    elif labels is None:
        classes = _decided_classes(request, files[-1])
    elif decided is None:
        rows = read.read_rows(files[0], columns, files, in_memory=True)
        labels = border.read_labels(labels, rows.shape[0], where)
        classes = name_classes(columns, files[0], labels)
        labels = read.match_labels(labels, classes, where, () if columns is None else files)
        labelled = rows, labels
    else:
        text, _ = read.read_decided(files[0], decided)
        classes, index, _ = border.read_decisions(text, labels, request.known_classes or None)
        labelled = border.Predictions.from_decisions(index, classes.size), labels
    priors: dict[str, Any] = dict.fromkeys(("source_priors", "source_label_priors", "known_priors"))
    for name in priors:
        if (typed := getattr(request, name)) is not None:
            option = f"--{name.replace('_', '-')}"
            priors[name] = read_priors(typed, classes, option, logits=request.logits)
    known = priors.pop("known_priors")
    costs = None if adapter is None else adapter.costs
    if request.costs is not None:
        costs = read_costs(request.costs, classes)
    given, aim = {"classes": classes, **priors}, {"costs": costs, "goal": request.goal}
    return Data(request, classes, files, files[-1], columns, labelled, given, aim, known, adapter)


def open_file(path: Path, request: Request) -> PredictionFile:
    """Open a file, and tell what was assumed of it."""
    column = request.label_column
    if path == request.target and request.target_label_column is not None:
        column = request.target_label_column
    file = open_predictions(
        path,
        label_column=column,
        logits=request.logits,
        title="stdin" if path == request.stdin else "",
        ignored=tuple(filter(None, (*request.not_classes, request.history_column))),
        bounded=not request.any_size,
    )
    for remark in file.remarks:
        note(remark)
    if file.adapted is not None:
        note(
            f"Warning: {file.where} was adapted already, by priorshift {file.adapted}: its "
            "predictions follow other priors than the classifier's. Use the predictions that it "
            "was made from."
        )
    return file


def settle_columns(
    request: Request, opened: Sequence[PredictionFile], labels: Sequence[str] | Labels
) -> tuple[tuple[PredictionFile, ...], read.Columns]:
    """Settle which column is which class; of a saved state or an adapter, its classes."""
    known = tuple(filter(None, np.unique(labels).tolist())) or request.known_classes
    if not known:  # priors as NAME=VALUE name classes too
        given = (request.source_priors, request.source_label_priors, request.known_priors)
        known = max(map(names_in_pairs, given), key=len)
    files, columns = find_classes(opened, known, request)
    if request.adapter is not None:
        names = known if files[0].names is None else files[0].names
        if missing := [name for name in known if name not in names]:
            raise ValueError(
                f"{files[0].where} has no numeric column for {border.some(missing)}, a class of "
                f"{request.adapter}; rename its columns ({border.some(names, 20)}), or use another "
                f"adapter. {border.columns.misspelt(files[0].header, known)}".rstrip()
            )
        columns = known
    elif columns is not None and set(request.known_classes) <= set(columns):
        columns = request.known_classes or columns
    if columns is not None and request.class_columns is None:
        for file in files:  # what the data themselves cannot prove wrong
            if file.names is None:
                order = border.some(columns, 20)
                note(f"{file.where} does not name its columns; taken in the order {order}.")
        # numbers that are left out are noticed by sums, but not where they are logits
        others = [file for file in files if set(file.names or columns) != set(columns)]
        if any(file.kind == "logits" for file in others):
            note(explain_classes(files, columns))
    return files, columns


def _decided_classes(request: Request, target: PredictionFile) -> Labels:
    """Name the classes by the decisions on the target, and the labels that are known of it."""
    if request.known_classes:
        return np.array(request.known_classes)
    if request.target_label_column is None:
        raise click.UsageError(
            "decisions (--predicted-column) need --validation or, for the method ppi, labels "
            "of some target rows: --target-label-column."
        )
    classes = np.unique(read.read_decided(target, request.predicted_column or "")[0])
    found = _target_text(target, request, classes)[0]
    found = found[found != ""]
    with suppress(ValueError):  # tables write whole numbers beside missing ones with a point
        found = border.as_text(found.astype(np.float64))
    return np.union1d(classes, found)


def drop_missing(
    file: PredictionFile, columns: read.Columns, decided: str | None, labels: Labels | None = None
) -> PredictionFile:
    """Leave out rows without predictions and, of validation, labels; tell how many."""
    if decided is None:
        missing = np.isnan(file.values(columns)).any(axis=1)
    else:
        missing = read.lacks(read.read_cells(file, decided))
    unlabelled = np.zeros_like(missing) if labels is None else (labels == "") & ~missing
    parts = ((missing, "without predictions"), (unlabelled, "without a label"))
    counts = [f"{np.count_nonzero(rows):,} {what}" for rows, what in parts if rows.any()]
    left_out = missing | unlabelled
    if counts:
        n = np.count_nonzero(left_out)
        note(f"{file.where}: left out {n:,} of {left_out.size:,} rows: {', '.join(counts)}.")
    return file.without(left_out)


# Columns


def find_classes(
    opened: Sequence[PredictionFile], known: Sequence[str], request: Request
) -> tuple[tuple[PredictionFile, ...], read.Columns]:
    """Return files whose columns are called by their classes, and the classes if they have names.

    `known` are classes to look for: the labels of validation, or those of a saved state. A header
    tells whether A=B in --class-columns is a column, or a class and its column.
    """
    text, positive, wrong = request.class_columns, request.positive_class, ""
    columns: dict[str, str] | None = None
    if text is not None:
        # as a line of CSV: a name with commas stands in quotes
        names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
        pairs = all("=" in name for name in names) and not set(names) <= set(opened[0].header)
        cut = [name.partition("=") for name in names] if pairs else []
        columns = {name.strip(): column.strip() for name, _, column in cut}
        if pairs and len(set(columns.values())) < len(names):
            wrong = "must name every class and every column once."
        elif not pairs and (len(set(names)) < len(names) or len(names) < 2):
            wrong = (
                "must name two classes or more, each once. For one column of binary probabilities "
                "write CLASS=COLUMN."
            )
        elif not pairs:
            return tuple(f.meant(renormalise=request.renormalise) for f in opened), tuple(names)
        elif len(names) == 1:
            positive = next(iter(columns))
        if wrong:
            raise click.BadParameter(f"{text!r} {wrong}", param_hint="'--class-columns'")
    files, remark = by_class(opened, known, columns, positive, renormalise=request.renormalise)
    if remark:
        note(remark)
    return files, common_classes(files)


def name_classes(columns: read.Columns, file: PredictionFile, labels: Labels | None) -> Labels:
    """Name the classes as text: by columns, else by labels, else by position."""
    if columns is not None:
        return np.array(columns)
    numbers: Any = labels
    for kind in (np.float64, np.int64):  # 10 comes after 2
        with suppress(ValueError, OverflowError):
            numbers = None if labels is None else labels.astype(kind)
    rows = border.Predictions(file.rows(None))
    return border.as_text(border.settle_classes(rows, numbers, name=file.where))


# Labels and groups


def validation_labels(validation: PredictionFile, request: Request) -> tuple[Labels, str, str]:
    """Read the labels of validation as text, and say in which column and where they are.

    With --drop-missing, an empty text stands for one that is missing.
    """
    file = validation if request.labels is None else open_file(request.labels, request)
    label, raw = file.label_column, None
    if request.labels is None:
        raw = file.vector(label)
    elif not file.header or label in file.header or request.label_column is None:
        known = label if not file.header or label in file.header else None
        columns = _key_columns(validation), _key_columns(file)
        label, raw = border.join.read_joined(
            *columns, request.key, known, partial=request.drop_missing
        )
    if raw is None:
        raise ValueError(read.say_no_labels(file, request.predicted_column))
    where = f"{label!r} in {file.where}"
    labels = read.text_labels(raw, validation, where, partial=request.drop_missing)
    return labels, label, where


def _target_text(target: PredictionFile, request: Request, classes: Labels) -> tuple[Labels, str]:
    """Read the labels of the target as text, empty where one is unknown, and say where they are."""
    named, where = (
        request.target_label_column is not None,
        f"{target.label_column!r} in {target.where}",
    )
    raw = target.vector(target.label_column)
    if raw is None and named:
        raise ValueError(f"there is no {where}; see --target-label-column.")
    if raw is None:
        return np.array([], dtype=str), where
    nothing = ("", "-1", "-1.0") if named and "-1" not in classes else ("",)
    return read.text_labels(raw, target, where, partial=named, nothing=nothing), where


def _key_columns(file: PredictionFile) -> border.join.Columns:
    """Return the columns of a file that may be keys or labels: no index, and no predictions."""
    arrays = ("y_proba", "logits", "classes", "source_priors", "priorshift.adapted")  # of an npz
    names = [n for n in file.header if not (PANDAS_INDEX.fullmatch(n) or n in arrays)]
    return border.join.Columns(names, file.vector, file.where)


def read_group_column(file: PredictionFile, name: str, option: str) -> Labels:
    """Read the group of each row: text, or whole numbers, so that week 10 comes after week 2."""
    cells, where = read.read_cells(file, name, option), f"{name!r} in {file.where}"
    groups = border.as_text(border.read_groups(cells, name=where))
    empty = np.flatnonzero(groups == "")
    if empty.size:
        raise ValueError(
            f"{where} is empty in {empty.size:,} rows, first in "
            f"{file.place(int(empty[0]))}; name their group, or drop them."
        )
    with suppress(ValueError, OverflowError):
        numbers = groups.astype(np.int64)
        return numbers if (numbers.astype(str) == groups).all() else groups  # 007 is not 7
    return groups


def _labels_by_row(path: Path, n_rows: int, classes: Labels) -> NDArray[np.object_]:
    """Read a file that --rows-to-label wrote and a person filled in: `row`, from 1, and `label`."""
    file = open_predictions(path)
    rows, cells = file.vector("row"), file.vector("label")
    if rows is None or cells is None:
        raise ValueError(
            f"{path} must have the columns 'row' and 'label', as assess --rows-to-label writes "
            f"them; it has {border.some(file.header)}."
        )
    filled = np.flatnonzero(~read.lacks(cells))
    if not filled.size:
        raise ValueError(f"no row of {path} has a label yet; fill in the column 'label'.")
    found = read.match_labels(cells[filled].astype(str), classes, f"'label' in {path}")
    labels = np.full(n_rows, None, dtype=object)
    for at, label in zip(filled.tolist(), found.tolist(), strict=True):
        row = str(rows[at])
        if not (row.isdecimal() and 1 <= int(row) <= n_rows):
            raise ValueError(
                f"{file.place(at)} of {path} names row {row!r}; rows of the target are 1 to "
                f"{n_rows:,}."
            )
        labels[int(row) - 1] = label
    return labels
