"""What an estimator knows from validation and counts on the target, however they are given.

Probabilities with labels, decisions with labels, and a confusion matrix all become the same
`Evidence`: counts that add, and the class balance of the source. What a method can read follows
from its class attributes. The target is counted among the classes that validation saw; some of its
rows may have labels.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priorshift._typing import Floats, Indices, Labels, Mask, Vector
from priorshift.adapt import prior_ratio
from priorshift.border import (
    DENSE_CLASSES,
    Block,
    Predictions,
    Rows,
    SparseTable,
    as_array,
    as_decisions,
    check_choice,
    check_classes,
    check_priors,
    check_proba,
    check_sample_weight,
    check_source_mass,
    classes_of_priors,
    column_of,
    dense,
    encode_labels,
    known_labels,
    ordered,
    read_decisions,
    read_labelled,
    read_labels,
    read_proba,
    settle_classes,
    take_rows,
    times,
    warn_if_adapted,
)
from priorshift.counts import Confusion, Decision, DecisionCounts
from priorshift.exceptions import argument
from priorshift.solvers import Mixture, maximise
from priorshift.text import percent

if TYPE_CHECKING:
    from priorshift.estimators.base import PriorEstimator

COUNTS = ("predicted", "confusion", "soft")
"""What evidence counts."""

GIVEN, GIVEN_LABELS = "given", "given (source_label_priors)"
"""Where source priors are from, if a user gave them: they themselves, or those of labels."""

MOST_CELLS = 2**25
"""Numbers of a sparse validation set that is made an array, for methods that keep its rows."""


@dataclass(frozen=True, eq=False)
class Validation:
    """The rows of a validation set, clean and in class order.

    `y` are the labels as positions in the classes, None where the method was fitted without.
    `checked` are the predictions as they passed the check, if the rows are theirs: what is counted
    over them is kept with them.
    """

    y_proba: Floats
    y: Any
    sample_weight: Vector | None
    checked: Predictions | None = None

    @property
    def weight(self) -> Vector:
        """Weight of each row; 1 where none was given."""
        if self.sample_weight is not None:
            return self.sample_weight
        return np.ones(self.y_proba.shape[0])

    def confusion(self, decision: Decision) -> Confusion:
        """Count decisions by class; once for all methods that get the same checked predictions."""
        known: dict[str, Any] = {"decision": decision, "sample_weight": self.sample_weight}
        count = partial(Confusion.from_arrays, self.y_proba, self.y, **known)
        if self.checked is None:
            return count()
        key, counted = ("confusion", decision), (self.y, self.sample_weight)
        return self.checked.once(self.y_proba, key, counted, count)

    def take(self, rows: Indices) -> "Validation":
        """Return some rows, or all in another order."""
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        return Validation(self.y_proba[rows], self.y[rows], weight)

    def in_canonical_order(self) -> "Validation":
        """Sort rows independently of the order of rows and classes, so that folds are, too."""
        own = self.y_proba[np.arange(self.y.size), self.y]
        return self.take(np.lexsort((self.y_proba.max(axis=1), own)))

    def balanced_weight(self, label_priors: Vector | None) -> Vector:
        """Return row weights that give validation the class balance of the source, if known."""
        if label_priors is None:
            return self.weight
        labelled = np.bincount(self.y, self.weight, label_priors.size)
        return self.weight * prior_ratio(label_priors, labelled / labelled.sum())[self.y]


def posterior_problem(
    y_proba: Rows,
    source_priors: Vector,
    alpha: float | Vector = 1.0,
    weights: Vector | None = None,
) -> Mixture:
    """Build the problem with one row per target sample: posterior / source priors."""
    scale = prior_ratio(np.ones_like(source_priors), source_priors)
    return Mixture(y_proba, scale=scale, weights=weights, alpha=alpha)


@dataclass(frozen=True)
class Target:
    """Decisions on a target, among the classes that validation saw.

    Samples of the other classes are set aside softly: a row counts by the chance that its class is
    one that was seen.

    Attributes
    ----------
    seen : ndarray of shape (K,)
    unseen_priors : ndarray of shape (K,)
        Priors of the classes that validation lacks, 0 for those that were seen.
    counts : DecisionCounts
        Decisions, of all classes, on samples of classes that were seen.
    y_proba : ndarray or Table of shape (n, K), or None
        The rows that were counted; None where there are only counts.
    weight : callable or None
        The chance of each row of a block; None is 1 for all.
    """

    seen: Mask
    unseen_priors: Vector
    counts: DecisionCounts
    y_proba: Any = None
    weight: Callable[[Block], Vector] | None = None

    @classmethod
    def of(
        cls, y_proba: Rows, seen: Mask, source_priors: Vector | None, decision: Decision
    ) -> "Target":
        """Set aside the classes that validation lacks; count the decisions on the others.

        With source priors, EM on the target estimates their share. Without them nothing can:
        validation lacks a class, so its mean prediction is not the classifier's own prior, and
        dividing by it would blow the class up. Then predictions count as they are.
        """
        priors, weight = np.zeros(seen.size), None
        if not seen.all():
            if source_priors is not None:
                problem = posterior_problem(y_proba, source_priors)
                priors = maximise(problem, tol=0.01).value  # the tolerance of EM itself
                factor = problem.scale * priors
            else:
                priors = DecisionCounts.from_arrays(y_proba, decision="soft").frequencies
                factor = np.ones(seen.size)
            weight = partial(_chance_of_seen, np.where(seen, 0.0, factor), factor)
        counts = DecisionCounts.from_arrays(y_proba, decision=decision, sample_weight=weight)
        return cls(seen, np.where(seen, 0.0, priors), counts, y_proba, weight)

    @property
    def size(self) -> float:
        """Number of rows of classes that were seen."""
        if self.weight is None:
            return self.counts.n_samples
        return float(self.counts.counts.sum())

    @property
    def empty(self) -> bool:
        """Whether all of the target belongs to classes that validation never saw, but rounding."""
        return bool(self.counts.counts.sum() <= 1e-9 * self.counts.n_samples)

    def complete(self, seen_priors: Vector) -> Vector:
        """Join priors of the seen classes, which sum to 1, with those of the others."""
        priors = self.unseen_priors.copy()
        priors[self.seen] = (1 - priors.sum()) * seen_priors
        return priors

    def among_seen(self, priors: Vector) -> Vector:
        """Return each seen class's share of the seen classes, even if all of `priors` are 0."""
        share = np.maximum(priors[self.seen], np.finfo(np.float64).tiny)
        return np.asarray(share / share.sum())


def _chance_of_seen(unseen: Vector, all_classes: Vector, block: Block) -> Vector:
    """Return the chance of each row that its class was seen: 1 - f . unseen / f . all_classes."""
    of_unseen = times(block, unseen).astype(np.float64)
    of_any = times(block, all_classes).astype(np.float64)
    return 1 - np.divide(of_unseen, of_any, out=np.zeros_like(of_any), where=of_any > 0)


class TargetLabels(NamedTuple):
    """The labels that are known of a target.

    Attributes
    ----------
    rows : ndarray of shape (n_labelled,)
        Rows with a label.
    y : ndarray of shape (n_labelled,)
        Their labels, as positions in the classes.
    weight : ndarray of shape (n_labelled,) or None
        1 over the chance of each to be labelled; None where all rows had the same.
    """

    rows: Indices
    y: Indices
    weight: Vector | None


@dataclass(frozen=True)
class Evidence:
    """What validation says, however it was given: counts that add with `+`.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    predicted : DecisionCounts or None
        Summed predictions of all rows; counts of hard decisions where there are no probabilities.
        None where there is no validation set, only source priors.
    confusion : Confusion or None
        Decisions by class, of the kind that the method compares.
    soft : Confusion or None
        Predictions by class, where the source priors are made from them.
    rows : Validation or None
        The rows counted, where they are probabilities.
    source_priors, source_label_priors : ndarray of shape (n_classes,) or None
        Priors of the training set, as you gave them to `fit`.
    named : bool
        Whether the columns had names.
    source_known : bool
        Whether source priors are given or follow from the counts; error rates alone do not tell
        them.
    decisions_only : bool
        Whether validation was decisions, or a confusion matrix, without probabilities.
    """

    classes: Labels
    predicted: Any = None
    confusion: Any = None
    soft: Confusion | None = None
    rows: Any = None
    source_priors: Vector | None = None
    source_label_priors: Vector | None = None
    named: bool = False
    source_known: bool = True
    decisions_only: bool = False

    @property
    def given(self) -> bool:
        """Whether you gave priors of the training set."""
        return self.source_priors is not None or self.source_label_priors is not None

    @property
    def best_labels(self) -> Vector | None:
        """What is known about the training labels: label priors, else source priors."""
        best = self.source_label_priors
        return self.source_priors if best is None else best

    def count(self, rows: Validation, decision: Decision | None) -> "Evidence":
        """Return the evidence of these rows: counted together, by decision, and softly if needed.

        Source priors are the mean prediction of each class, at label priors that are given alone.
        """
        confusion = soft = None
        if rows.y is not None:
            confusion = None if decision is None else rows.confusion(decision)
            if self.source_priors is None and self.source_label_priors is not None:
                soft = confusion if decision == "soft" else rows.confusion("soft")
        predicted = DecisionCounts.from_arrays(
            rows.y_proba, decision="soft", sample_weight=rows.sample_weight
        )
        return replace(self, predicted=predicted, confusion=confusion, soft=soft, rows=rows)

    def label_balance(self) -> tuple[Vector, str]:
        """Return the balance of labels as source priors: what a ratio from J is a ratio to."""
        if self.source_label_priors is not None:
            return self.source_label_priors, GIVEN_LABELS
        if self.source_priors is not None:
            return self.source_priors, GIVEN
        labels, seen = self.confusion.class_frequencies, self.confusion.seen
        if not self.decisions_only:
            predicted = self.predicted.frequencies
            labels = np.where(seen, labels * predicted[seen].sum(), predicted)
        if not self.source_known:
            return labels, "unknown: a confusion matrix alone does not tell them"
        return labels, "label frequencies of validation"

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return all but rows as plain values and arrays, for `from_arrays`."""
        counts = {}
        names = ("classes", "source_priors", "source_label_priors")
        arrays = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        for name in COUNTS:
            if (part := getattr(self, name)) is not None:
                counts[name] = [part.decision, part.n_samples]
                for array in ("counts", "class_weights", "squares"):
                    if getattr(part, array, None) is not None:
                        arrays[f"{name}.{array}"] = getattr(part, array)
        return {"counts": counts, "source_known": self.source_known}, arrays

    @classmethod
    def from_arrays(cls, described: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> "Evidence":
        """Put evidence together again."""
        found: dict[str, Any] = {"source_known": described["source_known"]}
        found |= {name: array for name, array in arrays.items() if "." not in name}
        for name, (decision, n_samples) in described["counts"].items():
            counts, weights = arrays[f"{name}.counts"], arrays.get(f"{name}.class_weights")
            found[name] = (
                DecisionCounts(counts, decision, n_samples)
                if weights is None
                else Confusion(counts, weights, decision, n_samples, arrays.get(f"{name}.squares"))
            )
        predicted = found.get("predicted")
        return cls(**found, decisions_only=predicted is not None and predicted.decision == "hard")

    def __add__(self, other: "Evidence") -> "Evidence":
        if self.predicted is None or other.predicted is None:
            return other
        added: dict[str, Any] = {"rows": None}
        for name in COUNTS:
            mine, theirs = getattr(self, name), getattr(other, name)
            added[name] = None if mine is None or theirs is None else mine + theirs
        return replace(self, **added)


def read_evidence(
    method: "PriorEstimator",
    y_proba: Any = None,
    y: Any = None,
    *,
    y_pred: Any = None,
    confusion: Any = None,
    source_priors: Any = None,
    source_label_priors: Any = None,
    classes: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Evidence:
    """Check validation, whatever it is given as; count it."""
    check_choice(method.decision, ("hard", "soft", None), "decision")
    name, rows, named, source_known = type(method).__name__, None, False, True
    if confusion is not None:
        beside = {"y_proba": y_proba, "y": y, "y_pred": y_pred, "sample_weight": sample_weight}
        if more := [given for given, value in beside.items() if value is not None]:
            raise ValueError(
                f"confusion= takes the place of a validation set; leave out {', '.join(more)}."
            )
        if not isinstance(confusion, Confusion):
            raise ValueError(
                "confusion must be a Confusion, as Confusion.from_counts(matrix) or "
                f"Confusion.from_rates(...) return; got {type(confusion).__name__}."
            )
        require_decisions(method, None, None)
        if confusion.decision != "hard":
            raise ValueError(
                "confusion counts soft decisions, whose spread it does not tell; give one of hard "
                "decisions, as Confusion.from_counts does."
            )
        K, known = confusion.class_weights.size, confusion.classes if classes is None else classes
        names = np.arange(K) if known is None else check_classes(known, K)
        source_known = source_priors is not None or source_label_priors is not None
    elif y_pred is not None or (isinstance(y_proba, Predictions) and y_proba.decided is not None):
        require_decisions(method, y_pred, y_proba)
        if y is None:
            raise ValueError(f"{name} needs validation labels: fit(y_pred=..., y=...).")
        given = y_proba if y_pred is None else y_pred
        names, decisions, truth = read_decisions(given, y, classes)
        weight = check_sample_weight(sample_weight, decisions.size)
        confusion = Confusion.from_decisions(decisions, truth, names.size, weight)
    elif y_proba is None:
        if method.decision is not None:
            raise ValueError(f"{name} needs a validation set: fit(y_proba, y).")
        if source_priors is not None:
            names = classes_of_priors(source_priors, classes)
        elif method.target_labels != "required":
            raise ValueError(
                f"{name} needs source priors, or predictions to estimate them from: "
                "fit(source_priors=...) or fit(y_proba)."
            )
        elif classes is None:
            raise ValueError(
                f"{name} needs the names of the classes in the order of the columns: "
                "fit(classes=[...])."
            )
        else:
            names = check_classes(classes)
    else:
        labels: Indices | None = None
        if y is not None:
            names, predictions, labels = read_labelled(y_proba, y, classes, tables=True)
        elif method.decision is not None:
            raise ValueError(f"{name} needs validation labels: fit(y_proba, y).")
        elif source_priors is None and source_label_priors is not None:
            raise ValueError(
                f"{argument('source_label_priors')} without {argument('source_priors')} need "
                "validation labels y: the mean prediction of each class is weighted by them."
            )
        else:
            predictions = check_proba(y_proba, tables=True, classes=classes)
            names = settle_classes(predictions, classes=classes)
            predictions = ordered(predictions, names)
        values: Any = predictions.values
        if isinstance(values, SparseTable):
            values = as_taken(method, values, kept=method._keeps_rows)
        if method._keeps_rows:
            values = take_rows(values)
        weight = check_sample_weight(sample_weight, values.shape[0])
        checked = predictions if values is predictions.values else None
        rows, named = Validation(values, labels, weight, checked), predictions.named
    if source_priors is not None:
        source_priors = check_priors(source_priors, names, "source_priors")
    if source_label_priors is not None:
        source_label_priors = check_priors(source_label_priors, names, "source_label_priors")
    evidence = Evidence(
        names,
        source_priors=source_priors,
        source_label_priors=source_label_priors,
        named=named,
        source_known=source_known,
    )
    if confusion is not None:
        require_room(method, names.size)
        predicted = DecisionCounts(confusion.counts.sum(axis=1), "hard", confusion.n_samples)
        return replace(evidence, predicted=predicted, confusion=confusion, decisions_only=True)
    return evidence if rows is None else evidence.count(rows, method.decision)


def read_target(
    method: "PriorEstimator",
    y_proba: Any,
    y_pred: Any,
    y_target: Any,
    unlabelled: Any,
    sample_weight: Any,
) -> tuple[Any, TargetLabels | None, bool]:
    """Check a target: its rows, or counts of decisions; its labels; whether columns had names."""
    classes, named = method.classes_, method._evidence.named
    if y_proba is None and y_pred is None:
        raise ValueError("the target is missing; pass y_proba, or decisions as y_pred=.")
    if isinstance(y_target, str):
        y_proba, y_target = column_of(y_proba, y_target, "y_target")
    if y_target is None and sample_weight is not None:
        raise ValueError("sample_weight is that of labelled rows; pass y_target= beside it.")
    if y_target is not None and method.target_labels == "unused":
        from priorshift.estimators.registry import label_methods

        raise ValueError(
            f"{type(method).__name__} does not use labels of the target; leave out "
            f"{argument('y_target')}, or use one of {', '.join(label_methods())}."
        )
    labelled = y_target is not None or method.target_labels == "required"
    decided = y_pred is not None or method._evidence.decisions_only
    if isinstance(y_proba, Predictions) and y_proba.decided is not None:
        decided = True
    if decided and not labelled:
        return count_decisions(method, y_pred, y_proba), None, False
    if decided:
        require_decisions(method, y_pred, y_proba)
        y_proba = y_proba if y_pred is None else as_decisions(y_pred, classes)
    warn_if_adapted(y_proba)
    predictions = read_proba(y_proba, classes, tables=True, named=named)
    values = predictions.values
    if isinstance(values, SparseTable):
        values = as_taken(method, values)
    if not decided and (source := method._denominator) is not None:
        check_source_mass(source, values, classes, origin=method.source_priors_from_)
    named, n = named or predictions.named, values.shape[0]
    if not labelled:
        return values, None, named
    rows, y = known_labels(y_target, classes, n, unlabelled)
    weight = None
    if sample_weight is not None:
        given = as_array(sample_weight, "sample_weight")
        if given.shape != (n,):
            raise ValueError(
                f"sample_weight has shape {given.shape} but there are {n} rows of predictions; "
                "give one weight per row. Those of rows without a label do not matter."
            )
        weight = check_sample_weight(given[rows], rows.size) if rows.size else None
    if not rows.size and method.target_labels != "required":
        return values, None, named
    return values, TargetLabels(rows, y, weight), named


def count_decisions(method: "PriorEstimator", y_pred: Any, y_proba: Any) -> DecisionCounts:
    """Count the decisions of the target, given as such or by their probabilities."""
    require_decisions(method, y_pred, y_proba)
    classes = method.classes_
    if y_pred is not None:
        decided = encode_labels(read_labels(y_pred, name="y_pred"), classes, "y_pred")
        return DecisionCounts.from_decisions(decided, classes.size)
    rows = read_proba(y_proba, classes, tables=True)
    return DecisionCounts.from_arrays(rows.values, decision="hard")


def require_decisions(method: "PriorEstimator", y_pred: Any, y_proba: Any) -> None:
    """Refuse decisions where they do not suffice, or where probabilities are given as well."""
    if y_pred is not None and y_proba is not None:
        raise ValueError("y_proba and y_pred are two ways to give the same; pass one of them.")
    if method.needs_probabilities:
        from priorshift.estimators.registry import decision_methods

        raise ValueError(
            f"{type(method).__name__} needs predicted probabilities (y_proba); decisions "
            f"(y_pred) suffice for {', '.join(decision_methods())}."
        )


def require_room(method: "PriorEstimator", K: int) -> None:
    """Refuse very many classes where dense matrices of classes by classes are needed."""
    if K > DENSE_CLASSES and not method._wide:
        raise ValueError(
            f"{method!r} needs dense matrices of classes by classes, and {K} classes are too "
            f"many for that (sparse predictions may have at most {DENSE_CLASSES}); use a "
            "method that needs none, such as SCM-L or EM."
        )


def as_taken(method: "PriorEstimator", values: SparseTable, *, kept: bool = False) -> Rows:
    """Return sparse predictions in the form that the method can use, or say which methods can.

    Those of more than `DENSE_CLASSES` classes only wide methods can. Up to there, a method that
    does not take sparse rows reads them as arrays, a few at a time; rows that it keeps must be few.
    """
    n, K = values.shape
    require_room(method, K)
    if kept and n * K > MOST_CELLS:
        raise ValueError(
            f"{type(method).__name__} needs validation row by row, as an array of {n} x {K} "
            f"numbers; give at most {MOST_CELLS // K} rows, or use a method that counts them, "
            "such as SCM-L."
        )
    return values if method._takes_sparse else dense(values)


@dataclass(frozen=True)
class SourceBalance:
    """Label priors of the source, where they come from in words, and whether they were given."""

    priors: Vector
    words: str
    given: bool


def source_balance(evidence: Evidence) -> SourceBalance:
    """Choose the class balance under which calibrated outputs are posteriors.

    Label priors if they are given. Source priors are what the classifier predicts on average: if
    that is what it predicts on validation, validation is drawn as the training set was, and its
    labels tell the balance; otherwise they are used as label priors themselves.
    """
    rows, source_priors = evidence.rows, evidence.source_priors
    if evidence.source_label_priors is not None:
        return SourceBalance(evidence.source_label_priors, GIVEN_LABELS, True)
    if source_priors is not None:
        mean, error = _mean(rows.y_proba, rows.weight)
        # beyond three standard errors, a mean prediction contradicts priors that were given
        if (np.abs(mean - source_priors) > 3.0 * error + 1e-6).any():
            return SourceBalance(source_priors, GIVEN, True)
    K = evidence.classes.size
    counts = np.bincount(rows.y, rows.weight, K)
    added = np.full(K, 0.5)
    if source_priors is not None:
        added[source_priors == 0] = 0.0  # it was not in training, as they say
    priors = (counts + added) / (counts.sum() + added.sum())
    words = "class frequencies on validation"
    if source_priors is None:
        words += ", taken to be drawn as the training set was"
    else:
        words += " (its mean prediction agrees with source_priors)"
    return SourceBalance(priors, words, source_priors is not None)


def find_mismatch(evidence: Evidence) -> str | None:
    r"""Say which class's mean prediction contradicts the labels of validation most, if any does.

    Only for a validation set that is drawn as the training set was. The variance of
    :math:`f_k - [y = k]` is at most the mean of :math:`f_k + [y = k]`, so means alone will do.
    Classes that validation lacks have their own warning.
    """
    rows = evidence.rows
    if rows is None or rows.y is None:
        return None
    labelled = np.bincount(rows.y, rows.weight, evidence.classes.size)
    labelled = labelled / labelled.sum()
    weight = rows.weight / rows.weight.max()
    n = float(weight.sum() ** 2 / (weight @ weight))
    predicted = np.where(labelled > 0, evidence.predicted.frequencies, 0.0)
    predicted = predicted / (predicted.sum() or 1.0)
    apart = np.abs(predicted - labelled)
    error = np.sqrt((predicted + labelled) / n)
    # by four standard errors, and by enough to be worth a warning: 5 points and a factor of 2
    beyond = (apart > 4.0 * error) & (apart > 0.05)
    beyond &= np.maximum(predicted, labelled) > 2.0 * np.minimum(predicted, labelled)
    if not beyond.any():
        return None
    k = int(np.argmax(np.where(beyond, apart, 0.0)))
    return (
        f"predictions on validation contradict its labels (class {evidence.classes[k]}: "
        f"{percent(predicted[k])} predicted on average, {percent(labelled[k])} of the labels), as "
        "after training with class weights or on undersampled data, or where outputs are far from "
        "calibrated"
    )


def _mean(y_proba: Floats, weight: Vector) -> tuple[Vector, Vector]:
    """Return the mean prediction and its standard error."""
    total = weight.sum()
    w = (weight / total).astype(y_proba.dtype)
    mean = (w @ y_proba).astype(np.float64)
    square = (w @ np.square(y_proba)).astype(np.float64)
    n = total**2 / float(weight @ weight)
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0) / n)
