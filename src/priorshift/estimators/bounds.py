"""The intervals that families of estimators share: by moments, by likelihood, by resampling.

An estimator supplies its interval in `_interval`. By default, a method that compares decisions with
a confusion matrix is bounded by the moments q = C p, with a hyper-prior or not: such an interval
covers the truth whatever the hyper-prior pulls to. All others have a bootstrap. EM and MAP are
bounded by the likelihood of the posteriors.
"""

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from priorshift._typing import Floats, Vector
from priorshift.border import DENSE_CLASSES, Rows, SparseTable, Table, some
from priorshift.calibration import CalibrationMap, best_temperature
from priorshift.counts import DecisionCounts, model_columns
from priorshift.estimators.data import Validation, posterior_problem
from priorshift.estimators.result import PriorEstimate
from priorshift.exceptions import PriorShiftWarning, argument, warn_user
from priorshift.intervals import (
    IntervalRequest,
    PriorInterval,
    SourceNoise,
    Votes,
    bootstrap_interval,
    drawn_interval,
    likelihood_interval,
    poisson_weights,
    pooled_columns,
    refute_calibration,
    stratified_weights,
)
from priorshift.solvers import maximise, solve_linear

if TYPE_CHECKING:
    from priorshift.estimators.base import PriorEstimator


class Bounds:
    """What bounds an estimate: its method, fitted, what it found, and the interval asked for."""

    def __init__(
        self, estimator: "PriorEstimator", found: PriorEstimate, request: IntervalRequest
    ) -> None:
        self.estimator, self.found, self.request = estimator, found, request
        self.name = type(estimator).__name__

    def by_moments(self, y_proba: Rows) -> PriorInterval:
        """Bound priors by the moments q = C p, or by the joint posterior of C and p."""
        confusion, method = self.estimator.confusion_, self.request.method
        if not confusion.seen.all():
            if method == "bootstrap":
                return self.by_resampling(y_proba)
            unseen = some(self.estimator.classes_[~confusion.seen].tolist())
            raise ValueError(
                f"validation has no sample of class {unseen}, so a confusion matrix cannot say how "
                f"sure its prior is; add samples, use EM with {argument('source_priors')}, or use "
                f"{_by('bootstrap')}, which trusts the predictions for that class."
            )
        if confusion.decision == "hard" or method == "bayesian":
            return self.by_counts(DecisionCounts.from_arrays(y_proba, decision="hard"))
        rows = self.estimator._labelled_rows()
        if method == "bootstrap":  # resample validation within classes, and the target, as weights
            target, K = self._in_memory(y_proba), rows.y_proba.shape[1]

            def replicate(rng: np.random.Generator) -> Vector:
                drawn, times = _redrawn(rows, K, rng), poisson_weights(target.shape[0], rng)
                q = DecisionCounts.from_arrays(target, decision="soft", sample_weight=times)
                return solve_linear(drawn.confusion("soft").conditional, q.frequencies)

            q = DecisionCounts.from_arrays(target, decision="soft").frequencies
            centre, n = solve_linear(confusion.conditional, q), target.shape[0]
            return bootstrap_interval(replicate, centre, self.found.priors, n, self.request)
        known = (rows.y_proba, rows.y, rows.sample_weight)
        votes = Votes.of(confusion, y_proba, *known, self._temperature(rows).apply)
        self._warn_if_weak(votes)
        return votes.interval(self.found.priors, self.request)

    def by_likelihood(self, y_proba: Rows) -> PriorInterval:
        """Bound priors by the likelihood of the posteriors, which assumes calibrated outputs.

        Where the labels of validation refute that, the interval says so, with a warning.
        """
        estimator, found, request = self.estimator, self.found, self.request
        if request.method == "bayesian":
            raise ValueError(
                f"{self.name} has no Bayesian interval; use {_by('asymptotic')} or "
                f"{_by('bootstrap')}, or CM-M and SCM-M for a posterior."
            )
        if request.method == "bootstrap":
            bounds = self.by_resampling(y_proba)
        else:
            source, mle = estimator.source_priors_, found.priors
            problem = posterior_problem(self._in_memory(y_proba), source)
            if found.status != "certified" or (estimator._hyper_prior != 1).any():
                mle = maximise(problem, tol=0.01, start=found.priors).value
            noise = self._source_noise()
            bounds = likelihood_interval(problem, mle, found.priors, request, source, noise)
        rows, labels = estimator._evidence.rows, estimator._evidence.best_labels
        if rows is None or rows.y is None:
            return bounds
        refuted = refute_calibration(
            rows.y_proba, rows.y, rows.sample_weight, labels, estimator.classes_
        )
        if refuted is None:
            return bounds
        caution = (
            f"{refuted}. The interval of {estimator.name} assumes that they are and may miss the "
            "truth far more often than it says: use Auto or em-bcts, which calibrate, or SCM-L, "
            "which needs no calibration."
        )
        warn_user(caution, PriorShiftWarning)
        return replace(bounds, caution=caution)

    def _in_memory(self, y_proba: Rows) -> Floats:
        """Refuse a table where rows are read in any order."""
        if isinstance(y_proba, Table):
            raise ValueError(
                f"this interval of {self.name} needs the rows of the target in memory; give an "
                "array or a memory map, or use the asymptotic interval of a method with a "
                "confusion matrix such as SCM-L."
            )
        return y_proba

    def by_counts(self, counts: DecisionCounts) -> PriorInterval:
        """Bound priors by counts of hard decisions on the target.

        Summed posteriors are no counts, so the posterior of soft methods is that of hard decisions
        as well. Where validation left no rows, all classes together say what a class does.
        """
        estimator, found, request = self.estimator, self.found, self.request
        refuse_wide(estimator, estimator.confusion_.counts)
        if counts.decision != "hard":
            raise ValueError(
                "summed probabilities do not tell how much single rows differ, and an interval "
                "needs that; use estimate(y_proba, confidence_level=...), or a method of hard "
                "decisions such as CM-L, for which counts suffice."
            )
        target, seen = counts.frequencies * counts.n_samples, estimator.confusion_.seen
        if estimator.decision == "hard" and estimator._evidence.rows is None:
            validation = estimator.confusion_.in_samples()
            model = tempered = pooled_columns(validation)
        else:
            rows = estimator._labelled_rows()
            weight = rows.balanced_weight(estimator._evidence.best_labels)
            chances = self._temperature(rows).apply(rows.y_proba)
            model, tempered = (model_columns(of, weight, "hard") for of in (rows.y_proba, chances))
            validation = rows.confusion("hard").in_samples()
        validation, model, tempered = validation[:, seen], model[:, seen], tempered[:, seen]
        if request.method in ("bootstrap", "bayesian"):
            bounds = drawn_interval(validation, target, model, found.priors[seen], request)
        else:
            votes = Votes.of_counts(validation, target, model, tempered)
            self._warn_if_weak(votes)
            bounds = votes.interval(found.priors[seen], request)
        if seen.all():
            return bounds
        interval, error = np.zeros((seen.size, 2)), np.zeros(seen.size)
        interval[seen], error[seen] = bounds.interval, bounds.standard_error
        caution = None
        if not estimator._evidence.decisions_only:  # of decisions a warning says it
            caution = (
                f"validation has no sample of class {some(estimator.classes_[~seen].tolist())}: "
                "its share is taken to be 0, and its interval does not allow for more."
            )
        return replace(bounds, interval=interval, standard_error=error, caution=caution)

    def _temperature(self, rows: Validation) -> CalibrationMap:
        """Return the temperature that makes outputs on validation chances of each class."""
        source = self.estimator._evidence.best_labels
        return best_temperature(rows.y_proba, rows.y, rows.weight, source)

    def _warn_if_weak(self, votes: Votes) -> None:
        if votes.weak:
            warn_user(
                f"{self.estimator.name}: with so few validation samples the confusion matrix "
                "hardly tells classes apart, and intervals may cover less than they say. Add "
                "validation samples; soft decisions (SCM-L) need fewer than hard ones.",
                PriorShiftWarning,
            )

    def _source_noise(self) -> SourceNoise | None:
        """Return the rows that the source priors were averaged from; None if they were given."""
        estimator = self.estimator
        evidence = estimator._evidence
        rows, label_priors = evidence.rows, evidence.source_label_priors
        if evidence.source_priors is not None:
            return None
        if rows is None:
            raise ValueError(
                f"{self.name} took its source priors from validation rows that partial_fit does "
                f"not keep, so their noise is unknown; give {argument('source_priors')}, or use "
                "fit."
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

    def by_resampling(self, y_proba: Rows) -> PriorInterval:
        """Resample rows, fit and estimate again: for any estimator, one copy of rows per thread.

        Validation keeps its class sizes where decisions are compared by class.
        """
        if self.request.method not in ("auto", "bootstrap") or self.request.estimand == "sample":
            raise ValueError(
                f"{self.name} has intervals by bootstrap only, and of the population's share; use "
                f"{_by('bootstrap')}."
            )
        estimator, found, target = self.estimator, self.found, self._in_memory(y_proba)
        evidence = estimator._evidence
        rows = evidence.rows
        if rows is None and evidence.source_priors is None:
            raise ValueError(
                f"{self.name} keeps no validation rows after partial_fit, so they cannot be "
                "resampled; use fit."
            )
        n, K = target.shape
        warm = estimator.batch == "posteriors" and found.status == "certified"
        n_strata = None if estimator.decision is None else K

        def replicate(rng: np.random.Generator) -> Vector:
            replica = copy(estimator)
            if rows is not None:
                drawn = _redrawn(rows, n_strata, rng)
                replica._settle(evidence.count(drawn, estimator.decision))
            times = poisson_weights(n, rng)
            if warm:  # from near the answer, and uncopied
                source, alpha = replica.source_priors_, replica._hyper_prior
                problem = posterior_problem(target, source, alpha, times)
                # 0.05 nats are at most a third of a standard error, and far less on average
                return maximise(problem, tol=0.05, start=found.priors).value
            again = np.repeat(np.arange(n), times.astype(np.intp))
            return replica._estimate(target[again]).priors

        return bootstrap_interval(replicate, found.priors, found.priors, n, self.request)


def _redrawn(rows: Validation, n_strata: int | None, rng: np.random.Generator) -> Validation:
    """Return validation drawn again, by weights of its rows; within classes if there are any."""
    if rows.y is None or n_strata is None:
        weight = poisson_weights(rows.y_proba.shape[0], rng)
    else:
        weight = stratified_weights(rows.y, n_strata, rng)
    if rows.sample_weight is not None:
        weight = weight * rows.sample_weight
        if not weight.any():  # none but rows of weight 0 were drawn
            weight = rows.sample_weight
    return Validation(rows.y_proba, rows.y, weight)


def refuse_wide(estimator: "PriorEstimator", values: Any) -> None:
    """Refuse an interval of very many classes, which needs dense matrices."""
    if values.shape[1] > DENSE_CLASSES and isinstance(values, SparseTable):
        raise ValueError(
            f"an interval of {type(estimator).__name__} needs dense matrices of classes by "
            f"classes, and {values.shape[1]} classes are too many for that (sparse predictions may "
            f"have at most {DENSE_CLASSES}); leave out {argument('confidence_level')}."
        )


def votes_of_validation(estimator: "PriorEstimator") -> Votes:
    """Return what validation says of votes, which needs no row of the target."""
    if estimator.decision == "hard" and estimator._evidence.rows is None:
        validation = estimator.confusion_.in_samples()
        target = validation.sum(axis=1)
        return Votes.of_counts(validation, target, pooled_columns(validation))
    rows = estimator._labelled_rows()
    return Votes.of(
        estimator.confusion_, rows.y_proba[:1], rows.y_proba, rows.y, rows.sample_weight
    )


def _by(method: str) -> str:
    """Name a kind of interval as the reader of a message asks for it."""
    return argument(f"interval_method={method}", f"interval_method={method!r}")
