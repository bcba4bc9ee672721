"""The intervals that families of estimators share: by moments, by likelihood, by resampling.

An estimator supplies its interval in `_interval`. By default, a method that compares decisions with
a confusion matrix is bounded by the moments q = C p, with a hyper-prior or not: such an interval
covers the truth whatever the hyper-prior pulls to. All others have a bootstrap. EM and MAP are
bounded by the likelihood of the posteriors.
"""

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from priorshift._typing import Floats, Vector
from priorshift.border import (
    DENSE_CLASSES,
    Rows,
    dense,
    is_wide,
    require_array,
    some,
)
from priorshift.calibration import CalibrationMap, best_temperature
from priorshift.counts import Confusion, DecisionCounts, model_columns
from priorshift.estimators.data import Validation, ValidationCounts, posterior_problem
from priorshift.estimators.result import PriorEstimate
from priorshift.exceptions import PriorShiftWarning, argument, warn_user
from priorshift.intervals import (
    HardDecisions,
    IntervalRequest,
    PriorInterval,
    SourceNoise,
    Votes,
    bootstrap_draws,
    bootstrap_interval,
    likelihood_interval,
    poisson_weights,
    pooled_columns,
    refute_calibration,
    stratified_weights,
)
from priorshift.solvers import maximise, solve_linear

if TYPE_CHECKING:
    from priorshift.estimators.base import PriorEstimator

MLE_TOL = 0.01
"""Gap in nats of the maximum of a likelihood, where the estimate itself is not it."""

RESAMPLE_TOL = 0.05
"""Gap in nats of a resample: at most a third of a standard error, and far less on average."""


def interval_by_moments(
    estimator: "PriorEstimator", y_proba: Rows, found: PriorEstimate, request: IntervalRequest
) -> PriorInterval:
    """Bound priors by the moments q = C p, or by the joint posterior of C and p."""
    confusion = estimator.confusion_
    if not confusion.seen.all():
        if request.method == "bootstrap":
            return _by_resampling_rows(estimator, _in_memory(estimator, y_proba), found, request)
        unseen = some(estimator.classes_[~confusion.seen].tolist())
        raise ValueError(
            f"validation has no sample of class {unseen}, so a confusion matrix cannot say how "
            f"sure its prior is; add samples, use EM with {argument('source_priors')}, or use "
            f"{_by('bootstrap')}, which trusts the predictions for that class."
        )
    if confusion.decision == "hard" or request.method == "bayesian":
        counts = DecisionCounts.from_arrays(y_proba, decision="hard")
        return _of_counts(estimator, counts, found, request)
    if request.method == "bootstrap":
        in_memory = _in_memory(estimator, y_proba)
        return _by_resampling_moments(estimator, in_memory, found, request)
    rows = estimator._labelled_rows()
    recalibrate = _temperature(estimator, rows).apply
    votes = Votes.of(confusion, y_proba, rows.y_proba, rows.labels, rows.sample_weight, recalibrate)
    _warn_if_weak(estimator, votes)
    return votes.interval(found.priors, request)


def interval_by_counts(
    estimator: "PriorEstimator",
    counts: DecisionCounts,
    found: PriorEstimate,
    request: IntervalRequest,
) -> PriorInterval:
    """Bound priors by counts of hard decisions on the target."""
    if is_wide(estimator.confusion_.counts):
        _refuse_many(estimator, estimator.classes_.size)
    if counts.decision != "hard":
        raise ValueError(
            "summed probabilities do not tell how much single rows differ, and an interval needs "
            "that; use estimate(y_proba, confidence_level=...), or a method of hard decisions "
            "such as CM-L, for which counts suffice."
        )
    return _of_counts(estimator, counts, found, request)


def interval_by_likelihood(
    estimator: "PriorEstimator", y_proba: Rows, found: PriorEstimate, request: IntervalRequest
) -> PriorInterval:
    """Bound priors by the likelihood of the posteriors, which assumes calibrated outputs.

    Where the labels of validation refute that, the interval says so, with a warning.
    """
    if request.method == "bayesian":
        raise ValueError(
            f"{type(estimator).__name__} has no Bayesian interval; use "
            f"{_by('asymptotic')} or {_by('bootstrap')}, or CM-M and SCM-M for a posterior."
        )
    in_memory = _in_memory(estimator, y_proba)
    if request.method == "bootstrap":
        bounds = _by_resampling_rows(estimator, in_memory, found, request)
    else:
        source, mle = estimator.source_priors_, found.priors
        problem = posterior_problem(in_memory, source)
        if found.status != "certified" or (estimator._hyper_prior != 1).any():
            mle = maximise(problem, tol=MLE_TOL, start=found.priors).value
        noise = _noise_of(estimator)
        bounds = likelihood_interval(problem, mle, found.priors, request, source, noise)
    rows = estimator._validation
    if rows is None or rows.y is None:
        return bounds
    labels = estimator._given.best_labels
    refuted = refute_calibration(rows.y_proba, rows.y, rows.sample_weight, labels)
    if refuted is None:
        return bounds
    caution = (
        f"{refuted.say(estimator.classes_)}. The interval of {estimator.name} assumes that they "
        "are and may miss the truth far more often than it says: use Auto or em-bcts, which "
        "calibrate, or SCM-L, which needs no calibration."
    )
    warn_user(caution, PriorShiftWarning)
    return replace(bounds, caution=caution)


def interval_by_resampling(
    estimator: "PriorEstimator", y_proba: Rows, found: PriorEstimate, request: IntervalRequest
) -> PriorInterval:
    """Bound priors by a bootstrap of validation and target, for any estimator."""
    if request.method in ("asymptotic", "bayesian") or request.estimand == "sample":
        raise ValueError(
            f"{type(estimator).__name__} has intervals by bootstrap only, and of the population's "
            f"share; use {_by('bootstrap')}."
        )
    return _by_resampling_rows(estimator, _in_memory(estimator, y_proba), found, request)


def _by(method: str) -> str:
    """Name a kind of interval as the reader of a message asks for it."""
    return argument(f"interval_method={method}", f"interval_method={method!r}")


def as_dense(estimator: "PriorEstimator", values: Rows) -> Any:
    """Return predictions in the form that intervals, which need dense matrices, can use."""
    if is_wide(values):
        _refuse_many(estimator, values.shape[1])
    return dense(values)


def _refuse_many(estimator: "PriorEstimator", K: int) -> NoReturn:
    """Refuse an interval of very many classes."""
    raise ValueError(
        f"an interval of {type(estimator).__name__} needs dense matrices of classes by classes, "
        f"and {K} classes are too many for that (sparse predictions may have at most "
        f"{DENSE_CLASSES}); leave out {argument('confidence_level')}."
    )


def _in_memory(estimator: "PriorEstimator", y_proba: Rows) -> Floats:
    """Refuse a table where rows are read in any order."""
    return require_array(
        y_proba,
        f"this interval of {type(estimator).__name__} needs the rows of the target in memory; "
        "give an array or a memory map, or use the asymptotic interval of a method with a "
        "confusion matrix such as SCM-L.",
    )


def _of_counts(
    estimator: "PriorEstimator",
    counts: DecisionCounts,
    found: PriorEstimate,
    request: IntervalRequest,
) -> PriorInterval:
    """Bound priors by counts of hard decisions.

    Summed posteriors are no counts, so the posterior of soft methods is that of hard decisions
    as well. Where validation left no rows, all classes together say what a class does.
    """
    target = counts.frequencies * counts.n_samples
    if estimator.decision == "hard" and estimator._validation is None:
        validation = estimator.confusion_.in_samples()
        decisions = HardDecisions(validation, target, pooled_columns(validation))
    else:
        rows = estimator._labelled_rows()
        weight = rows.balanced_weight(estimator._given.best_labels)
        chances = _temperature(estimator, rows).apply(rows.y_proba)
        model, tempered = (model_columns(of, weight, "hard") for of in (rows.y_proba, chances))
        decisions = HardDecisions(rows.confusion("hard").in_samples(), target, model, tempered)
    seen = estimator.confusion_.seen
    decisions = decisions.among(seen)
    if request.method in ("auto", "asymptotic"):
        _warn_if_weak(estimator, decisions.votes)
    bounds = decisions.interval(found.priors[seen], request)
    if seen.all():
        return bounds
    interval, error = np.zeros((seen.size, 2)), np.zeros(seen.size)
    interval[seen], error[seen] = bounds.interval, bounds.standard_error
    caution = (
        f"validation has no sample of class {some(estimator.classes_[~seen].tolist())}: its share "
        "is taken to be 0, and its interval does not allow for more."
    )
    return replace(bounds, interval=interval, standard_error=error, draws=None, caution=caution)


def votes_of_validation(estimator: "PriorEstimator") -> Votes:
    """Return what validation says of votes, which needs no row of the target."""
    if estimator.decision == "hard" and estimator._validation is None:
        validation = estimator.confusion_.in_samples()
        target = validation.sum(axis=1)
        return HardDecisions(validation, target, pooled_columns(validation)).votes
    rows = estimator._labelled_rows()
    return Votes.of(
        estimator.confusion_, rows.y_proba[:1], rows.y_proba, rows.labels, rows.sample_weight
    )


def _temperature(estimator: "PriorEstimator", rows: Validation) -> CalibrationMap:
    """Return the temperature that makes outputs on validation chances of each class."""
    source = estimator._given.best_labels
    return best_temperature(rows.y_proba, rows.labels, rows.weight, source)


def _warn_if_weak(estimator: "PriorEstimator", votes: Votes) -> None:
    if votes.weak:
        warn_user(
            f"{estimator.name}: with so few validation samples the confusion matrix hardly tells "
            "classes apart, and intervals may cover less than they say. Add validation samples; "
            "soft decisions (SCM-L) need fewer than hard ones.",
            PriorShiftWarning,
        )


def _by_resampling_moments(
    estimator: "PriorEstimator", y_proba: Floats, found: PriorEstimate, request: IntervalRequest
) -> PriorInterval:
    """Resample validation within classes, and the target, as weights of what is summed."""
    rows, K = estimator._labelled_rows(), estimator.classes_.size
    y = rows.labels

    def replicate(rng: np.random.Generator) -> Vector:
        weight = stratified_weights(y, K, rng)
        if rows.sample_weight is not None:
            weight = weight * rows.sample_weight
        drawn = Confusion.from_arrays(rows.y_proba, y, decision="soft", sample_weight=weight)
        q = DecisionCounts.from_arrays(
            y_proba, decision="soft", sample_weight=poisson_weights(y_proba.shape[0], rng)
        ).frequencies
        return solve_linear(drawn.conditional, q)

    q = DecisionCounts.from_arrays(y_proba, decision="soft").frequencies
    centre = solve_linear(estimator.confusion_.conditional, q)
    draws = bootstrap_draws(replicate, request.n_resamples, request.rng)
    return bootstrap_interval(draws, centre, found.priors, y_proba.shape[0], request)


def _noise_of(estimator: "PriorEstimator") -> SourceNoise | None:
    """Return the rows that the source priors were averaged from; None if they were given."""
    source_priors, label_priors = estimator._given
    if source_priors is not None:
        return None
    rows = estimator._validation
    if rows is None:
        raise ValueError(
            f"{type(estimator).__name__} took its source priors from validation rows that "
            "partial_fit does not keep, so their noise is unknown; give "
            f"{argument('source_priors')}, or use fit."
        )
    weight = rows.weight
    if label_priors is None or rows.y is None:
        return SourceNoise(rows.y_proba, weight / weight.sum())
    mass = np.bincount(rows.y, weight, minlength=estimator.classes_.size)
    unknown = (mass == 0) & (estimator.source_label_priors_ > 0)
    if unknown.any():
        warn_user(
            f"validation has no sample of class {some(estimator.classes_[unknown].tolist())}, "
            "which counts as always recognised: the interval leaves out what that may be wrong "
            "by. Give source_priors, or samples of every class.",
            PriorShiftWarning,
        )
    share = weight * (estimator.source_label_priors_ / np.maximum(mass, 1e-300))[rows.y]
    return SourceNoise(rows.y_proba, share, rows.y)


def _by_resampling_rows(
    estimator: "PriorEstimator", y_proba: Floats, found: PriorEstimate, request: IntervalRequest
) -> PriorInterval:
    """Resample rows, fit and estimate again: for any estimator, one copy of the rows per thread.

    Validation keeps its class sizes where decisions are compared by class.
    """
    rows = estimator._validation
    if rows is None and estimator._given[0] is None:
        raise ValueError(
            f"{type(estimator).__name__} keeps no validation rows after partial_fit, so they "
            "cannot be resampled; use fit."
        )
    n, K = y_proba.shape
    warm = estimator.batch == "posteriors" and found.status == "certified"

    def replicate(rng: np.random.Generator) -> Vector:
        replica = copy(estimator)
        if rows is not None:
            size = rows.y_proba.shape[0]
            if rows.y is not None and estimator.decision is not None:
                weight = stratified_weights(rows.y, K, rng)
            else:
                weight = poisson_weights(size, rng)
            if rows.sample_weight is not None:
                weight = weight * rows.sample_weight
                # where none but rows of weight 0 were drawn
                weight = weight if weight.any() else rows.sample_weight
            drawn = Validation(rows.y_proba, rows.y, weight)
            needs_soft = estimator._given.needs_soft
            counts = ValidationCounts.of(drawn, decision=estimator.decision, needs_soft=needs_soft)
            replica._settle(replace(estimator._evidence, counts=counts, rows=drawn))
        times = poisson_weights(n, rng)
        if warm:  # from near the answer, and uncopied
            source, alpha = replica.source_priors_, replica._hyper_prior
            problem = posterior_problem(y_proba, source, alpha, times)
            return maximise(problem, tol=RESAMPLE_TOL, start=found.priors).value
        return replica._estimate(y_proba[np.repeat(np.arange(n), times.astype(np.intp))]).priors

    draws = bootstrap_draws(replicate, request.n_resamples, request.rng)
    return bootstrap_interval(draws, found.priors, found.priors, n, request)
