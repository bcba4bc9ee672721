"""What an estimator knows from validation and counts on the target, however they are given.

Probabilities with labels, decisions with labels, and a confusion matrix all become the same
`Evidence`: counts that add, and the class balance of the source. What a method can read follows
from its class attributes. The target is counted among the classes that validation saw; some of its
rows may have labels.
"""

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priorshift._typing import Floats, Indices, Labels, Mask, Vector
from priorshift.adapt import prior_ratio
from priorshift.border import (
    DENSE_CLASSES,
    Block,
    DenseBlocks,
    LockFree,
    Predictions,
    Rows,
    as_array,
    check_choice,
    check_classes,
    check_priors,
    check_proba,
    check_sample_weight,
    classes_of_labels,
    classes_of_priors,
    is_named,
    is_sparse,
    known_labels,
    map_reduce,
    ordered,
    read_decisions,
    read_labelled,
    settle_classes,
    times,
    whole,
)
from priorshift.counts import Confusion, Decision, DecisionCounts
from priorshift.exceptions import argument
from priorshift.solvers import Mixture, maximise
from priorshift.text import percent

if TYPE_CHECKING:
    from priorshift.estimators.base import PriorEstimator

MOST_CELLS = 2**25
"""Numbers of a sparse validation set that is made an array, for methods that keep its rows."""


NONE_LEFT = 1e-9
"""Share of the target below which nothing is left of the classes that validation saw."""


class Validation(NamedTuple):
    """The rows of a validation set, clean and in class order.

    `checked` are the predictions as they passed the check, if the rows are theirs: what is counted
    over them is kept with them.
    """

    y_proba: Floats
    y: Indices | None
    sample_weight: Vector | None
    checked: Predictions | None = None

    @property
    def labels(self) -> Indices:
        """The labels, where the method could not have been fitted without them."""
        assert self.y is not None
        return self.y

    @property
    def weight(self) -> Vector:
        """Weight of each row; 1 where none was given."""
        if self.sample_weight is not None:
            return self.sample_weight
        return np.ones(self.y_proba.shape[0])

    def confusion(self, decision: Decision) -> Confusion:
        """Count decisions by class; once for all methods that get the same checked predictions."""

        def count() -> Confusion:
            return Confusion.from_arrays(
                self.y_proba, self.labels, decision=decision, sample_weight=self.sample_weight
            )

        if self.checked is None:
            return count()
        key, counted = ("confusion", decision), (self.labels, self.sample_weight)
        return self.checked.once(self.y_proba, key, counted, count)

    def take(self, rows: Indices) -> "Validation":
        """Return some rows, or all in another order."""
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        return Validation(self.y_proba[rows], self.labels[rows], weight)

    def in_canonical_order(self) -> "Validation":
        """Sort rows independently of the order of rows and classes, so that folds are, too."""
        own = self.y_proba[np.arange(self.labels.size), self.labels]
        return self.take(np.lexsort((self.y_proba.max(axis=1), own)))

    def joined(self, other: "Validation") -> "Validation":
        """Append the rows of another batch."""
        weight = None
        if self.sample_weight is not None or other.sample_weight is not None:
            weight = np.concatenate([self.weight, other.weight])
        return Validation(
            np.concatenate([self.y_proba, other.y_proba]),
            np.concatenate([self.labels, other.labels]),
            weight,
        )

    def balanced_weight(self, label_priors: Vector | None) -> Vector:
        """Return row weights that give validation the class balance of the source, if known."""
        if label_priors is None:
            return self.weight
        labelled = np.bincount(self.labels, self.weight, label_priors.size)
        return self.weight * prior_ratio(label_priors, labelled / labelled.sum())[self.labels]


@dataclass(frozen=True)
class ValidationCounts:
    """Sums over a validation set, mergeable with `+`; None for what the method does not need.

    Attributes
    ----------
    predicted : DecisionCounts
        Summed predictions of all rows; counts of hard decisions where there are no probabilities.
    confusion : Confusion or None
        Decisions by class, of the kind that the method compares.
    soft : Confusion or None
        Predictions by class, where the source priors are made from them.
    """

    predicted: DecisionCounts
    confusion: Confusion | None = None
    soft: Confusion | None = None

    @classmethod
    def of(
        cls, rows: Validation, *, decision: Decision | None, needs_soft: bool = False
    ) -> "ValidationCounts":
        """Count validation predictions: all together, by decision, and softly if needed."""
        predicted = DecisionCounts.from_arrays(
            rows.y_proba, decision="soft", sample_weight=rows.sample_weight
        )
        if rows.y is None:
            return cls(predicted)
        confusion = None if decision is None else rows.confusion(decision)
        soft = None
        if needs_soft:
            soft = confusion if decision == "soft" else rows.confusion("soft")
        return cls(predicted, confusion, soft)

    @classmethod
    def of_decisions(cls, confusion: Confusion) -> "ValidationCounts":
        """Take counts of hard decisions for all there is: no probabilities were given."""
        counts = confusion.counts.sum(axis=1)
        return cls(DecisionCounts(counts, "hard", confusion.n_samples), confusion)

    @property
    def decisions_only(self) -> bool:
        """Whether validation was decisions, without probabilities."""
        return self.predicted.decision == "hard"

    @property
    def by_class(self) -> Confusion:
        """The confusion matrix, where the method could not have been fitted without it."""
        assert self.confusion is not None
        return self.confusion

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the kind and number of rows of each part, and its arrays; see `from_arrays`."""
        named = {field.name: getattr(self, field.name) for field in fields(ValidationCounts)}
        parts = {name: part for name, part in named.items() if part is not None}
        arrays = {f"{name}.counts": part.counts for name, part in parts.items()}
        for name, part in parts.items():
            for more in ("class_weights", "squares"):
                if getattr(part, more, None) is not None:
                    arrays[f"{name}.{more}"] = getattr(part, more)
        return {name: [part.decision, part.n_samples] for name, part in parts.items()}, arrays

    @classmethod
    def from_arrays(
        cls, described: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> "ValidationCounts":
        """Put the parts together again."""
        parts: dict[str, Any] = {field.name: None for field in fields(ValidationCounts)}
        for name, (decision, n_samples) in described.items():
            counts, weights = arrays[f"{name}.counts"], arrays.get(f"{name}.class_weights")
            parts[name] = (
                DecisionCounts(counts, decision, n_samples)
                if weights is None
                else Confusion(counts, weights, decision, n_samples, arrays.get(f"{name}.squares"))
            )
        return cls(**parts)

    def __add__(self, other: "ValidationCounts") -> "ValidationCounts":
        return ValidationCounts(
            self.predicted + other.predicted,
            self.confusion and other.confusion and self.confusion + other.confusion,
            self.soft and other.soft and self.soft + other.soft,
        )


def posterior_problem(
    y_proba: Rows,
    source_priors: Vector,
    alpha: float | Vector = 1.0,
    weights: Vector | None = None,
) -> Mixture:
    """Build the problem with one row per target sample: posterior / source priors."""
    scale = prior_ratio(np.ones_like(source_priors), source_priors)
    return Mixture.of(y_proba, scale=scale, weights=weights, alpha=alpha)


@dataclass(frozen=True)
class SeenChance:
    """The chance of rows that their class is one that validation saw, at the target's priors."""

    unseen: Vector
    all_classes: Vector

    def __call__(self, block: Block) -> Vector:
        """Return the chance of each row of a block."""
        of_unseen = times(block, self.unseen).astype(np.float64)
        of_any = times(block, self.all_classes).astype(np.float64)
        return 1 - np.divide(of_unseen, of_any, out=np.zeros_like(of_any), where=of_any > 0)


@dataclass(frozen=True)
class _Target:
    """A target among the classes that validation saw; the other classes are set aside.

    Attributes
    ----------
    seen : ndarray of shape (K,)
    unseen_priors : ndarray of shape (K,)
        Priors of the other classes, 0 for those that were seen.
    """

    seen: Mask
    unseen_priors: Vector

    def complete(self, seen_priors: Vector) -> Vector:
        """Join priors of the seen classes, which sum to 1, with those of the others."""
        priors = self.unseen_priors.copy()
        priors[self.seen] = (1 - priors.sum()) * seen_priors
        return priors


@dataclass(frozen=True)
class SeenTarget(_Target):
    """Target rows, each with the chance that its class is one that validation saw.

    Samples of the other classes are set aside softly: a row counts by that chance.

    Attributes
    ----------
    y_proba : ndarray or Table of shape (n, K)
    weight : SeenChance or None
        None is 1 for all.
    """

    y_proba: Rows
    weight: SeenChance | None

    @property
    def n_rows(self) -> int:
        """Rows of the target, of all classes."""
        return self.y_proba.shape[0]

    @classmethod
    def of(cls, y_proba: Rows, seen: Mask, source_priors: Vector | None) -> "SeenTarget":
        """Set aside the classes that validation lacks.

        With source priors, EM on the target estimates their share. Without them nothing can:
        validation lacks a class, so its mean prediction is not the classifier's own prior, and
        dividing by it would blow the class up. Then predictions count as they are.
        """
        if seen.all():
            return cls(seen, np.zeros(seen.size), y_proba, None)
        if source_priors is not None:
            problem = posterior_problem(y_proba, source_priors)
            priors = maximise(problem, tol=0.01).value  # the tolerance of EM itself
            factor = problem.scale * priors
        else:
            priors = DecisionCounts.from_arrays(y_proba, decision="soft").frequencies
            factor = np.ones(seen.size)
        weight = SeenChance(np.where(seen, 0.0, factor), factor)
        return cls(seen, np.where(seen, 0.0, priors), y_proba, weight)

    def count(self, decision: Decision) -> "TargetCounts":
        """Count the decisions on the classes that were seen."""
        counts = DecisionCounts.from_arrays(
            self.y_proba, decision=decision, sample_weight=self.weight
        )
        return TargetCounts(self.seen, self.unseen_priors, counts)

    @LockFree
    def size(self) -> float:
        """Number of rows of classes that were seen."""
        if self.weight is None:
            return self.y_proba.shape[0]
        return float(map_reduce(partial(_sum_weight, self.weight), self.y_proba))

    @property
    def empty(self) -> bool:
        """Whether all of the target belongs to classes that validation never saw."""
        return self.size <= NONE_LEFT * self.n_rows


@dataclass(frozen=True)
class TargetCounts(_Target):
    """Target decisions on samples of the classes that validation saw."""

    counts: DecisionCounts

    @property
    def n_rows(self) -> int:
        """Rows of the target, of all classes."""
        return self.counts.n_samples

    @property
    def empty(self) -> bool:
        """Whether all of the target belongs to classes that validation never saw."""
        return bool(self.counts.counts.sum() <= NONE_LEFT * self.n_rows)

    def among_seen(self, priors: Vector) -> Vector:
        """Return each seen class's share of the seen classes, even if all of `priors` are 0."""
        share = np.maximum(priors[self.seen], np.finfo(np.float64).tiny)
        return np.asarray(share / share.sum())


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

    @classmethod
    def of(
        cls, y_target: Any, classes: Labels, n_rows: int, unlabelled: Any, sample_weight: Any
    ) -> "TargetLabels":
        """Check the labels and their weights."""
        rows, y = known_labels(y_target, classes, n_rows, unlabelled)
        if sample_weight is None:
            return cls(rows, y, None)
        given = as_array(sample_weight, "sample_weight")
        if given.shape != (n_rows,):
            raise ValueError(
                f"sample_weight has shape {given.shape} but there are {n_rows} rows of "
                "predictions; give one weight per row. Those of rows without a label do not "
                "matter."
            )
        return cls(rows, y, check_sample_weight(given[rows], rows.size) if rows.size else None)


def _sum_weight(weight: SeenChance, block: Block, _: slice) -> float:
    return float(weight(block).sum())


@dataclass(frozen=True)
class Evidence:
    """What validation says, however it was given: counts that add with `+`.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    counts : ValidationCounts or None
        None where there is no validation set, only source priors.
    rows : Validation or None
        The rows counted, where they are probabilities.
    source_priors, source_label_priors : ndarray of shape (n_classes,) or None
        Priors of the training set, as you gave them to `fit`.
    named : bool
        Whether the columns had names.
    source_known : bool
        Whether source priors are given or follow from the counts; error rates alone do not tell
        them.
    """

    classes: Labels
    counts: ValidationCounts | None
    rows: Validation | None = None
    source_priors: Vector | None = None
    source_label_priors: Vector | None = None
    named: bool = False
    source_known: bool = True

    @property
    def given(self) -> bool:
        """Whether you gave priors of the training set."""
        return self.source_priors is not None or self.source_label_priors is not None

    @property
    def needs_soft(self) -> bool:
        """Whether source priors are validation's mean prediction, re-weighted to label priors."""
        return self.source_priors is None and self.source_label_priors is not None

    @property
    def best_labels(self) -> Vector | None:
        """What is known about the training labels: label priors, else source priors."""
        best = self.source_label_priors
        return self.source_priors if best is None else best

    def __add__(self, other: "Evidence") -> "Evidence":
        if self.counts is None or other.counts is None:
            return other
        both = self.rows is not None and other.rows is not None
        return replace(
            self,
            counts=self.counts + other.counts,
            rows=self.rows.joined(other.rows) if both else None,  # type: ignore[union-attr, arg-type]
        )


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
    """Check what validation is given as; count it."""
    check_choice(method.decision, ("hard", "soft", None), "decision")
    name, counts, rows, named, source_known = type(method).__name__, None, None, False, True
    if confusion is not None:
        beside = {"y_proba": y_proba, "y": y, "y_pred": y_pred, "sample_weight": sample_weight}
        if more := [name for name, value in beside.items() if value is not None]:
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
        K = confusion.class_weights.size
        require_room(method, K)
        known = confusion.classes if classes is None else classes
        names = np.arange(K) if known is None else check_classes(known, K)
        counts = ValidationCounts.of_decisions(confusion)
        source_known = source_priors is not None or source_label_priors is not None
    elif y_pred is not None or (isinstance(y_proba, Predictions) and y_proba.decided is not None):
        require_decisions(method, y_pred, y_proba)
        if y is None:
            raise ValueError(f"{name} needs validation labels: fit(y_pred=..., y=...).")
        truth: Any
        if y_pred is None:
            names, _, truth = read_labelled(y_proba, y, classes, tables=True)
            decided = y_proba.decided
        else:
            names, decided, truth = read_decisions(y_pred, y, classes)
        require_room(method, names.size)
        weight = check_sample_weight(sample_weight, truth.size)
        counted = Confusion.from_decisions(decided, truth, names.size, weight)
        counts = ValidationCounts.of_decisions(counted)
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
            names = classes_of_labels(np.zeros(0), classes)
    else:
        labels: Indices | None = None
        needs_soft = source_priors is None and source_label_priors is not None
        if y is not None:
            names, predictions, labels = read_labelled(y_proba, y, classes, tables=True)
        elif method.decision is not None:
            raise ValueError(f"{name} needs validation labels: fit(y_proba, y).")
        elif needs_soft:
            raise ValueError(
                f"{argument('source_label_priors')} without {argument('source_priors')} need "
                "validation labels y: the mean prediction of each class is weighted by them."
            )
        else:
            predictions = check_proba(y_proba, tables=True, classes=classes)
            names = settle_classes(predictions, classes=classes)
            predictions = ordered(predictions, names)
        values = predictions.values
        if is_sparse(values):
            values = as_taken(method, values, kept=method._keeps_rows)
        if method._keeps_rows:
            values = whole(values)
        weight = check_sample_weight(sample_weight, predictions.shape[0])
        checked = predictions if values is predictions.values else None
        rows, named = Validation(values, labels, weight, checked), is_named(predictions)
        counts = ValidationCounts.of(rows, decision=method.decision, needs_soft=needs_soft)
    if source_priors is not None:
        source_priors = check_priors(source_priors, names, "source_priors")
    if source_label_priors is not None:
        source_label_priors = check_priors(source_label_priors, names, "source_label_priors")
    return Evidence(names, counts, rows, source_priors, source_label_priors, named, source_known)


def count_decisions(method: "PriorEstimator", y_pred: Any, y_proba: Any) -> DecisionCounts:
    """Count the decisions of the target, given as such or by their probabilities."""
    require_decisions(method, y_pred, y_proba)
    classes = method.classes_
    if y_pred is not None:
        _, decided, _ = read_decisions(y_pred, classes=classes)
        return DecisionCounts.from_decisions(decided, classes.size)
    rows = ordered(check_proba(y_proba, tables=True, classes=classes), classes)
    if rows.decided is not None:
        return DecisionCounts.from_decisions(rows.decided, classes.size)
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


def as_taken(method: "PriorEstimator", values: Any, *, kept: bool = False) -> Any:
    """Return sparse predictions in the form that the method can use, or say which methods can.

    Beyond `DENSE_CLASSES` classes only wide methods can. Up to there, a method that does not take
    sparse rows reads them as arrays, a few at a time; rows that it keeps must be few.
    """
    n, K = values.shape
    require_room(method, K)
    if kept and n * K > MOST_CELLS:
        raise ValueError(
            f"{type(method).__name__} needs validation row by row, as an array of {n} x {K} "
            f"numbers; give at most {MOST_CELLS // K} rows, or use a method that counts them, "
            "such as SCM-L."
        )
    return values if method._takes_sparse else DenseBlocks(values)


GIVEN, GIVEN_LABELS = "given", "given (source_label_priors)"
"""Where source priors are from, if a user gave them: they themselves, or those of labels."""


def label_sources(evidence: Evidence) -> tuple[Vector, str]:
    """Use the balance of labels as source priors: what a ratio from J is a ratio to."""
    if evidence.source_label_priors is not None:
        return evidence.source_label_priors, GIVEN_LABELS
    if evidence.source_priors is not None:
        return evidence.source_priors, GIVEN
    counts = evidence.counts
    assert counts is not None
    if counts.decisions_only:
        return counts.by_class.class_frequencies, "label frequencies of validation"
    predicted, confusion = counts.predicted.frequencies, counts.by_class
    labels = confusion.class_frequencies * predicted[confusion.seen].sum()
    return np.where(confusion.seen, labels, predicted), "label frequencies of validation"


@dataclass(frozen=True)
class SourceBalance:
    """Label priors of the source, where they come from in words, and whether they were given."""

    priors: Vector
    words: str
    given: bool


def source_balance(
    y_proba: Floats,
    y: Indices,
    weight: Vector,
    source_priors: Vector | None,
    label_priors: Vector | None,
) -> SourceBalance:
    """Choose the class balance under which calibrated outputs are posteriors.

    Label priors if they are given. Source priors are what the classifier predicts on average: if
    that is what it predicts on validation, validation is drawn as the training set was, and its
    labels tell the balance; otherwise they are used as label priors themselves.
    """
    if label_priors is not None:
        return SourceBalance(label_priors, GIVEN_LABELS, True)
    if source_priors is not None:
        mean, error = _mean(y_proba, weight)
        # beyond three standard errors, a mean prediction contradicts priors that were given
        if (np.abs(mean - source_priors) > 3.0 * error + 1e-6).any():
            return SourceBalance(source_priors, GIVEN, True)
    K = y_proba.shape[1]
    counts = np.bincount(y, weight, K)
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


def say_mismatch(predicted: Vector, labelled: Vector, n: float, classes: Labels) -> str | None:
    r"""Say which class's mean prediction contradicts its labels most, if any does.

    Only for a validation set that is drawn as the training set was. The variance of
    :math:`f_k - [y = k]` is at most the mean of :math:`f_k + [y = k]`, so means alone will do.
    Classes that validation lacks have their own warning.
    """
    predicted = np.where(labelled > 0, predicted, 0.0)
    predicted = predicted / (predicted.sum() or 1.0)
    apart = np.abs(predicted - labelled)
    error = np.sqrt((predicted + labelled) / max(n, 1.0))
    # by four standard errors, and by enough to be worth a warning: 5 points and a factor of 2
    beyond = (apart > 4.0 * error) & (apart > 0.05)
    beyond &= np.maximum(predicted, labelled) > 2.0 * np.minimum(predicted, labelled)
    if not beyond.any():
        return None
    k = int(np.argmax(np.where(beyond, apart, 0.0)))
    return (
        f"predictions on validation contradict its labels (class {classes[k]}: "
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
