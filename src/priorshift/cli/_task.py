"""From files to checked predictions: everything a command works on."""

import csv
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from shutil import copyfileobj
from typing import Any, cast

import click
import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Labels, Mask, Vector
from priorshift.adapt import Adapter
from priorshift.assessment import Assessment, Verdicts, assess, following
from priorshift.border import (
    SAMPLE_SEED,
    Predictions,
    as_decisions,
    is_array,
    judged_rows,
    misspelt,
    read_decisions,
    read_joined,
    read_labels,
    sample_sentence,
    some,
)
from priorshift.border import Columns as TableColumns
from priorshift.cli._classes import (
    Columns,
    class_columns,
    classes_of_some,
    explain_columns,
    known_labels,
    lacks,
    name_classes,
    read_probabilities,
    read_rows,
    read_text_labels,
    require_labels,
    some_labels,
    without_missing,
)
from priorshift.cli._columns import Meaning, by_class, label_hint, names_of
from priorshift.cli._console import note
from priorshift.cli._dask import connected
from priorshift.cli._options import Request
from priorshift.cli._priors import names_in_pairs, read_costs, read_priors
from priorshift.estimators import (
    NoAdaptation,
    PriorEstimate,
    PriorEstimator,
    get_estimator,
    traits_of,
)
from priorshift.files import KeptRows, PredictionFile, open_predictions
from priorshift.groups import read_groups
from priorshift.solvers import ADVICE


def in_memory(checked: Predictions, what: str) -> Predictions:
    """Return an array as it is, and rows drawn from a table; tell what they are for."""
    if is_array(checked.values):
        return checked
    sample = judged_rows(checked.values)
    if sentence := sample_sentence(what, sample.shape[0], checked.shape[0]):
        note(sentence)
    return Predictions.from_checked(sample)


def estimate_with_interval(
    estimator: PriorEstimator, rows: Predictions, asked: dict[str, Any]
) -> PriorEstimate:
    """Estimate on all rows; find the interval on all as well, or on a sample, which is wider."""
    if not estimator.needs_rows:
        return estimator.estimate(rows, random_state=SAMPLE_SEED, **asked)
    found = estimator.estimate(rows)
    sample = in_memory(rows, "The interval is that of")
    return with_bounds(found, estimator.estimate(sample, random_state=SAMPLE_SEED, **asked))


def with_bounds(found: PriorEstimate, bounds: PriorEstimate) -> PriorEstimate:
    """Return an estimate with the interval of another, widened to hold it."""
    if bounds.interval is None:
        return found
    lower, upper = bounds.interval.T
    return replace(
        found,
        interval=np.column_stack([lower.clip(max=found.priors), upper.clip(min=found.priors)]),
        standard_error=bounds.standard_error,
        confidence_level=bounds.confidence_level,
        interval_method=bounds.interval_method,
        estimand=bounds.estimand,
        simultaneous=bounds.simultaneous,
    )


def without_interval(found: PriorEstimate) -> PriorEstimate:
    """Return an estimate whose interval nobody asked for."""
    nothing: dict[str, Any] = dict.fromkeys(
        ("interval", "standard_error", "confidence_level", "interval_method", "estimand")
    )
    return replace(found, **nothing, simultaneous=None)


COMMANDLINE = click.core.ParameterSource.COMMANDLINE

CONFIDENCE_LEVEL = 0.95
"""Of the intervals of an assessment, unless another is asked for."""


@dataclass(frozen=True)
class Task:
    """Checked inputs; class names are text.

    Attributes
    ----------
    request : Request
        What the user named.
    classes : ndarray of shape (n_classes,)
    files : tuple of PredictionFile
        Validation, if there is one, and the target.
    columns : tuple of str or None
        Class columns in the order of `classes`, if they have names.
    y_proba_val : Predictions or None
    y_val : ndarray or None
        Validation, if there is one; checked.
    source_priors, source_label_priors, known_priors : ndarray of shape (n_classes,) or None
    adapter : Adapter or None
        What to apply instead of an estimate.
    """

    request: Request
    classes: Labels
    files: tuple[PredictionFile, ...]
    columns: Columns
    y_proba_val: Predictions | None = None
    y_val: Labels | None = None
    source_priors: Vector | None = None
    source_label_priors: Vector | None = None
    known_priors: Vector | None = None
    adapter: Adapter | None = None
    client: Any = None
    """Of the Dask cluster that goes through the target, if there is one."""
    made: dict[Any, Any] = field(default_factory=dict)
    """What was fitted and assessed already, by method: both are done once."""

    @property
    def target(self) -> PredictionFile:
        """The file to adapt."""
        return self.files[-1]

    @property
    def given(self) -> dict[str, Any]:
        """What `fit` is told beside the data."""
        return {
            "source_priors": self.source_priors,
            "source_label_priors": self.source_label_priors,
            "classes": self.classes,
        }

    def target_proba(self) -> Predictions:
        """Read the target's probabilities into memory, checked."""
        if self.request.predicted_column is not None:
            return self.target_rows()
        return read_probabilities(self.target, self.columns, self.files)

    def target_rows(self) -> Predictions:
        """Return the target's probabilities, checked once; as a table if the file is large."""
        return self._target_rows

    @cached_property
    def _target_rows(self) -> Predictions:
        if self.request.predicted_column is not None:
            decided, where = predicted_labels(self.target, self.request.predicted_column)
            return as_decisions(known_labels(decided, self.classes, where), self.classes)
        return read_rows(self.target, self.columns, self.files, self.client)

    @property
    def n_target(self) -> int | None:
        """How many rows the target has, if that is known without reading it once more."""
        if "_target_rows" in vars(self):
            return self._target_rows.shape[0]
        return self.target.n_rows()

    def target_labels(self) -> NDArray[np.object_] | None:
        """Read the target's labels, if it has any; None stands for those that are unknown.

        Only in a column or a file that the user named for it may some be unknown.
        """
        if self.request.target_labels is not None:
            return labels_by_row(
                self.request.target_labels, self.target_rows().shape[0], self.classes
            )
        raw, where = self.target.labels(), f"{self.target.label_column!r} in {self.target.where}"
        if self.request.target_label_column is not None:
            if raw is None:
                raise ValueError(f"there is no {where}; see --target-label-column.")
            return some_labels(raw, self.classes, where)
        if raw is None:
            return None
        try:
            labels = known_labels(read_text_labels(raw, raw.size, where), self.classes, where)
        except ValueError as error:
            note(labels_not_used(error))
            return None
        return labels.astype(object)

    def all_target_labels(self) -> NDArray[np.object_] | None:
        """Read the target's labels, if every row has one."""
        labels = self.target_labels()
        return None if labels is None or any(label is None for label in labels) else labels

    @cached_property
    def costs(self) -> Vector | None:
        """What errors cost, if the user or the adapter says so."""
        if self.adapter is not None:
            return self.adapter.costs
        path = self.request.costs
        return None if path is None else read_costs(path, self.classes)

    @property
    def aim(self) -> dict[str, Any]:
        """What adapting is to improve, as `assess` and Auto take it."""
        return {"costs": self.costs, "goal": self.request.goal}

    def suitable(self, method: str) -> str:
        """Return the method; for decisions, CM-L in place of a default that needs probabilities."""
        ctx = click.get_current_context(silent=True)
        chosen = ctx is not None and ctx.get_parameter_source("method") == COMMANDLINE
        default = self.request.predicted_column is not None and not chosen
        return "cm-l" if default and traits_of(method).needs_probabilities else method

    def fitted(self, method: str) -> PriorEstimator:
        """Fit a method to validation, or to what is known of the source."""
        key = "fitted", method
        if key in self.made:
            return cast("PriorEstimator", self.made[key])
        estimator = get_estimator(self.suitable(method))
        if self.aim.keys() <= estimator.get_params().keys():
            estimator.set_params(**self.aim)
        try:
            self.made[key] = estimator.fit(self.y_proba_val, self.y_val, **self.given)
        except ValueError:
            if self.y_proba_val is not None:
                raise
            raise click.UsageError(
                f"{method} needs --validation here; em and map need only --source-priors, "
                "ppi only --target-label-column."
            ) from None
        return estimator

    def estimate(self, method: str) -> PriorEstimate:
        """Estimate the target priors, or wrap those that are known."""
        if self.adapter is not None:
            return _carried(self.adapter, self.classes)
        if self.known_priors is not None:
            return self._known()
        found, estimator = self.assess(method), self.fitted(method)
        rows, asked = self.target_rows(), self.request.interval
        if found is not None and self._answers(found, estimator):
            return found.estimate if asked else without_interval(found.estimate)
        if (labels := self._labels_for(estimator)) is not None:
            return estimator.estimate(rows, random_state=0, y_target=labels, **asked)
        if asked and not is_array(rows.values):
            return estimate_with_interval(estimator, rows, asked)
        return estimator.estimate(rows, random_state=0, **asked)

    def _answers(self, found: Assessment, estimator: PriorEstimator) -> bool:
        """Tell whether an assessment has the estimate that was asked for: of all rows, unchanged.

        One that decides by itself follows the verdict; of another, a verdict to leave predictions
        alone takes away what it would adapt by.
        """
        estimate, interval = found.estimate, self.request.interval
        named = self.request.target_label_column is not None
        unasked_labels = estimator.target_labels != "unused" and not named
        return (
            (found.rows_looked_at == found.n_target or estimate.decision is not None)
            and (estimate.strength > 0 or estimate.decision is not None)
            and (not interval or estimate.interval is not None)
            and interval.get("interval_method", "auto") == "auto"
            and not unasked_labels
        )

    def _labels_for(self, estimator: PriorEstimator) -> NDArray[np.object_] | None:
        """Return the target's labels, for a method that uses them.

        One that can do without uses those that the user named for it only: others may be there to
        judge it by.
        """
        named = self.request.target_label_column is not None and estimator.target_labels != "unused"
        labels = self.target_labels() if named or estimator.target_labels == "required" else None
        if labels is None and estimator.target_labels == "required":
            raise click.UsageError(
                f"{estimator.name} needs labels of some target rows; name their column with "
                "--target-label-column."
            )
        return labels

    def assess(self, method: str, *, labels: bool = True) -> Assessment | None:
        """Weigh all evidence; None without validation, or where the priors are known."""
        if self.y_proba_val is None or self.y_val is None or self.known_priors is not None:
            return None
        if method not in self.made:
            self.made[method] = assess(
                self.y_proba_val,
                self.y_val,
                self.target_rows(),
                method=self.fitted(method),
                y_target=self.target_labels() if labels else None,
                groups_val=self._history(),
                assume_prior_shift=self.request.assume_prior_shift,
                **self.aim,
                confidence_level=self.request.confidence_level or CONFIDENCE_LEVEL,
                **self.given,
            )
        return cast("Assessment", self.made[method])

    def _history(self) -> Labels | None:
        """Return the group of each validation row, if the user named a column of them."""
        name = self.request.history_column
        return None if name is None else read_group_column(self.files[0], name, "--history-column")

    def verdicts(self) -> Verdicts | None:
        """Return what gives a verdict on each part of the target; None without validation."""
        if self.y_proba_val is None or self.y_val is None:
            return None
        return Verdicts(self.y_proba_val, self.y_val, self.source_label_priors)

    def _known(self) -> PriorEstimate:
        source, origin = self.source_priors, "given"
        if source is None and self.y_proba_val is not None:
            fitted = NoAdaptation().fit(self.y_proba_val, self.y_val, **self.given)
            source, origin = fitted.source_priors_, fitted.source_priors_from_
        if source is None or self.known_priors is None:
            raise click.UsageError(
                "--known-priors need the priors that the model was trained under: give "
                "--source-priors, or --validation drawn as the training set was."
            )
        return PriorEstimate("known", self.classes, self.known_priors, source, origin, "direct")


def as_advised(shift: PriorEstimate, found: Assessment | None) -> PriorEstimate:
    """Return an estimate as `adapt` applies it: one that decides by itself follows the verdict."""
    if found is None or shift.decision is None:
        return shift
    return following(shift, found.action)


def _carried(adapter: Adapter, classes: Labels) -> PriorEstimate:
    """Return the estimate that an adapter carries, as far as it tells."""
    known = adapter.provenance
    status = known.get("status")
    return PriorEstimate(
        str(known.get("method", "adapter")),
        classes,
        adapter.priors,
        adapter.source_priors,
        str(known.get("source_priors_from", "given")),
        status if status in ADVICE else "direct",
        calibrator=adapter.calibration,
        strength=adapter.strength,
    )


@contextmanager
def open_task(request: Request) -> Iterator[Task]:
    """Open the files, settle the classes, read validation and priors."""
    with _without_stdin(request) as request, connected(request.dask) as client:
        if request.adapter is not None:
            yield _with_adapter(request, Adapter.from_json(request.adapter))
            return
        paths = [path for path in (request.validation, request.target) if path is not None]
        opened = [open_file(path, request) for path in paths]
        validation = opened[0] if len(opened) > 1 else None
        raw, where = None, ""
        if validation is not None:
            raw, where = _validation_labels(validation, request)
        if request.predicted_column is not None:
            yield _with_priors(_decided(request, opened, raw, where), validation, request)
            return
        known = names_of(None if raw is None else raw[~lacks(raw)]) or _named_classes(request)
        files, columns = settle_columns(opened, known, request)
        if columns is not None and set(request.known_classes) <= set(columns):
            columns = request.known_classes or columns
        _tell_assumptions(files, columns, request.class_columns)
        if request.drop_missing:
            files, raw = _whole_rows(files, columns, raw)
            raw = None if raw is None else read_labels(raw, None, where)
        y_proba_val, y_val = None, None
        if raw is not None:
            y_proba_val = read_probabilities(files[0], columns, files)
            y_val = read_text_labels(raw, y_proba_val.shape[0], where)
        classes = name_classes(columns, files[0], raw)
        if y_val is not None:
            y_val = known_labels(y_val, classes, where, explain_columns(files, columns))
        task = Task(request, classes, files, columns, y_proba_val, y_val, client=client)
        yield _with_priors(task, validation, request)


def _whole_rows(
    files: Sequence[PredictionFile], columns: Columns, raw: Any
) -> tuple[tuple[PredictionFile, ...], Any]:
    """Leave out rows that lack predictions and, of validation, labels."""
    kept = []
    for at, file in enumerate(files):
        labels = raw if at == 0 and len(files) > 1 else None
        missing: Mask = np.isnan(file.values(columns)).any(axis=1)  # type: ignore[assignment]
        kept.append(without_missing(file, missing, labels))
        if labels is not None and isinstance(kept[0], KeptRows):
            raw = raw[kept[0].kept]
    return tuple(kept), raw


def settle_columns(
    opened: Sequence[PredictionFile], known: Sequence[str], request: Request
) -> tuple[tuple[PredictionFile, ...], Columns]:
    """Return files whose columns are called by their classes, and the classes; `known` are some."""
    meaning = Meaning.of(
        request.class_columns, request.positive_class, request.renormalise, opened[0].header
    )
    files = by_class(opened, known, meaning)
    return files, class_columns(files, meaning.chosen)


def _with_adapter(request: Request, adapter: Adapter) -> Task:
    """Take the classes from an adapter; the target must have a column for each."""
    columns = tuple(map(str, adapter.classes.tolist()))
    opened = open_file(request.target, request)
    meaning = Meaning(positive_class=request.positive_class, renormalise=request.renormalise)
    (target,) = by_class([opened], columns, meaning)
    names = columns if target.names is None else target.names
    if missing := [name for name in columns if name not in names]:
        raise ValueError(
            f"{target.where} has no numeric column for {some(missing)}, a class of "
            f"{request.adapter}; rename its columns ({some(names, 20)}), or use another adapter. "
            f"{misspelt(target.header, columns)}".rstrip()
        )
    _tell_assumptions((target,), columns, None)
    return Task(request, np.array(columns), (target,), columns, adapter=adapter)


def _decided(request: Request, opened: Sequence[PredictionFile], raw: Any, where: str) -> Task:
    """Read decisions and labels of validation; all of them together name the classes."""
    assert request.predicted_column is not None
    known = np.array(request.known_classes)
    if raw is None:
        classes = known if known.size else _classes_of_target(opened[-1], request)
        return Task(request, classes, tuple(opened), None)
    if request.drop_missing:
        opened, raw = _decided_rows(opened, raw, request.predicted_column)
        raw = read_labels(raw, None, where)
    decided, _ = predicted_labels(opened[0], request.predicted_column)
    y_val = read_text_labels(raw, decided.size, where)
    classes, index, _ = read_decisions(decided, y_val, known if known.size else None)
    rows = Predictions.from_decisions(index, classes.size)
    return Task(request, classes, tuple(opened), None, rows, y_val)


def _decided_rows(
    files: Sequence[PredictionFile], raw: Any, column: str
) -> tuple[list[PredictionFile], Any]:
    """Leave out rows that lack decisions and, of validation, labels."""
    kept = []
    for at, file in enumerate(files):
        decided = file.vector(column)
        if decided is not None:
            file = without_missing(file, lacks(decided), raw if at == 0 else None)
        if at == 0 and isinstance(file, KeptRows):
            raw = raw[file.kept]
        kept.append(file)
    return kept, raw


def _classes_of_target(target: PredictionFile, request: Request) -> Labels:
    """Name the classes by the decisions on the target, and by the labels that are known of it."""
    assert request.predicted_column is not None
    raw = target.labels()
    if request.target_label_column is None or raw is None:
        raise click.UsageError(
            "decisions (--predicted-column) need --validation or, for the method ppi, labels of "
            "some target rows: --target-label-column."
        )
    decided, _ = predicted_labels(target, request.predicted_column)
    return classes_of_some(decided, raw)


def predicted_labels(file: PredictionFile, column: str) -> tuple[Labels, str]:
    """Read decisions as text, and say where they are from."""
    where = f"{column!r} in {file.where}"
    raw = file.vector(column)
    if raw is None:
        raise ValueError(
            f"{file.where} has no column {column!r}; name the column of the decisions with "
            "--predicted-column."
        )
    return read_text_labels(read_labels(raw, None, where), raw.size, where), where


def _named_classes(request: Request) -> tuple[str, ...]:
    """Return the classes that a saved state, or priors as NAME=VALUE, name."""
    given = (request.source_priors, request.source_label_priors, request.known_priors)
    return request.known_classes or max(map(names_in_pairs, given), key=len)


def _tell_assumptions(
    files: Sequence[PredictionFile], columns: Columns, chosen: str | None
) -> None:
    """Say what the data themselves cannot prove wrong."""
    if columns is None or chosen is not None:
        return
    for file in files:
        if file.names is None:
            note(f"{file.where} does not name its columns; taken in the order {some(columns, 20)}.")
    if any(file.kind == "logits" and set(file.names or columns) != set(columns) for file in files):
        note(explain_columns(files, columns))


def _with_priors(task: Task, validation: PredictionFile | None, request: Request) -> Task:
    """Add the priors that options or the validation file give."""
    named: dict[str, Any] = {}
    for option in ("source_priors", "source_label_priors", "known_priors"):
        if (text := getattr(request, option)) is not None:
            named[option] = read_priors(
                text, task.classes, f"--{option.replace('_', '-')}", logits=request.logits
            )
    if not {"source_priors", "source_label_priors"} & set(named) and validation is not None:
        stored = None if validation.is_table else validation.vector("source_priors")
        if stored is not None:
            named["source_priors"] = read_priors(
                str(validation.path), task.classes, "--source-priors"
            )
    return replace(task, **named)


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
        ignored=request.not_classes,
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


def open_like(path: Path, task: Task) -> PredictionFile:
    """Open a further file of the target, with the classes and options of the task."""
    file = open_file(path, task.request)
    if task.request.predicted_column is not None:
        return file
    request = task.request
    meaning = Meaning.of(
        request.class_columns, request.positive_class, request.renormalise, file.header
    )
    return by_class([file], task.classes.tolist(), meaning)[0]


def _validation_labels(validation: PredictionFile, request: Request) -> tuple[Any, str]:
    """Read the labels of validation, and say where they are from."""
    file = validation if request.labels is None else open_file(request.labels, request)
    label, raw = file.label_column, None
    if request.labels is None:
        raw = file.labels()
    elif not file.header or label in file.header or request.label_column is None:
        known = label if not file.header or label in file.header else None
        label, raw = read_joined(_keyed(validation), _keyed(file), request.key, known)
    if raw is None:
        raise ValueError(no_labels(file))
    where = f"{label!r} in {file.where}"
    if not request.drop_missing:
        require_labels(raw, validation if request.labels else file, where)
        raw = read_labels(raw, None, where)
    return raw, where


def _keyed(file: PredictionFile) -> TableColumns:
    """Return the columns of a file that may be keys or labels: no index, and no predictions."""
    names = [name for name in file.header if not (file.is_index(name) or name in NPZ_KEYS)]

    def read(name: str) -> Any:
        return file.labels() if name == file.label_column else file.vector(name)

    return TableColumns(names, read, file.where)


NPZ_KEYS = ("y_proba", "logits", "classes", "source_priors", "priorshift.adapted")
"""Arrays of an npz file that are no columns."""


def no_labels(file: PredictionFile) -> str:
    """Say that a validation file has no labels, and where they may be."""
    keys = f" (it has {some(file.header)})" if file.header and not file.is_table else ""
    return (
        f"{file.where} has no labels (column or key {file.label_column!r}){keys}; name them with "
        f"--label-column, or a file of them with --labels.{label_hint(file)}"
    )


def labels_not_used(error: ValueError) -> str:
    """Say why labels of the target are left out."""
    return f"The target's labels are not used: {error}"


@contextmanager
def _without_stdin(request: Request) -> Iterator[Request]:
    """Put CSV from stdin into a temporary file, as it is read more than once."""
    files = {name: getattr(request, name) for name in ("validation", "target", "labels")}
    dashed = [name for name, path in files.items() if path == Path("-")]
    if not dashed:
        yield request
        return
    if len(dashed) > 1:
        raise click.UsageError(f"only one of --{' and --'.join(dashed)} can be stdin (-).")
    with tempfile.TemporaryDirectory(prefix="priorshift-") as folder:
        path = Path(folder) / "stdin.csv"
        with path.open("wb") as stream:
            copyfileobj(sys.stdin.buffer, stream)
        changed: dict[str, Any] = {dashed[0]: path, "stdin": path}
        yield replace(request, **changed)


def read_group_column(file: PredictionFile, name: str, option: str) -> Labels:
    """Read the group of each row: text, or whole numbers, so that week 10 comes after week 2."""
    raw = file.vector(name)
    if raw is None:
        raise ValueError(
            f"{file.where} has no column {name!r}; name the column of the groups with {option}. "
            f"It has {some(list(file.header))}."
        )
    try:
        return read_groups(raw)
    except ValueError as error:
        raise ValueError(f"{name!r} in {file.where}: {error}") from None


def labels_by_row(path: Path, n_rows: int, classes: Labels) -> NDArray[np.object_]:
    """Read a file that --rows-to-label wrote and a person filled in: `row`, from 1, and `label`."""
    with path.open(newline="", encoding="utf-8-sig") as stream:
        lines = list(csv.DictReader(stream))
    if not lines or not {"row", "label"} <= lines[0].keys():
        raise ValueError(
            f"{path} must have the columns 'row' and 'label', as assess --rows-to-label writes "
            f"them; it has {some(list(lines[0]) if lines else [])}."
        )
    labels = np.full(n_rows, None, dtype=object)
    for at, line in enumerate(lines, 2):
        cell = (line["label"] or "").strip()
        if not cell:
            continue
        text = (line["row"] or "").strip()
        if not text.isdecimal() or not 1 <= int(text) <= n_rows:
            raise ValueError(
                f"line {at} of {path} names row {text!r}; rows of the target are 1 to {n_rows:,}."
            )
        labels[int(text) - 1] = cell
    if not any(label is not None for label in labels):
        raise ValueError(f"no row of {path} has a label yet; fill in the column 'label'.")
    known = labels != None  # noqa: E711 - row by row
    labels[known] = known_labels(labels[known].astype(str), classes, f"'label' in {path}")
    return labels
