"""Auto: decide whether and how to adapt, from validation and target alone."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Floats, Indices, Vector
from priorshift._validation import check_count, check_positive
from priorshift.adaptation import prior_ratio
from priorshift.estimators._auto_words import Reason, say_unknown, state_decision
from priorshift.estimators._base import PriorEstimator
from priorshift.estimators._gain import (
    Decisions,
    Gain,
    Sample,
    expected_gain,
    validated_gain,
)
from priorshift.estimators._outputs import Outputs, calibrated_outputs
from priorshift.estimators._result import PriorEstimate
from priorshift.estimators._shrinkage import ShrunkPriors, shrink_by_evidence
from priorshift.exceptions import PriorShiftWarning, warn_user
from priorshift.execution import Rows, Table, sample_rows
from priorshift.solvers import Solution, Status
from priorshift.statistics import Confusion, Decision
from priorshift.uncertainty import IntervalRequest, PriorInterval, Votes

BETTER = 2.0
"""Standard errors by which a calibrator with more parameters must decide better on validation."""

LEAST_TEMPERING = 1e-6

SAMPLE_NUMBERS = 25_000_000
LARGEST_ARRAY = 100_000_000
"""Rules are compared on calibrated copies of the target: on a sample of so many rows times classes
if it is a larger table, or an array that is larger still."""


@dataclass(frozen=True)
class Rule:
    """A way to adapt: calibrated outputs, and priors to adapt them to."""

    outputs: Outputs
    shrunk: ShrunkPriors
    decisions: Decisions


class Auto(PriorEstimator):
    r"""Calibrate, estimate, shrink, and adapt only where that is expected to help.

    1. Outputs are calibrated by a temperature after a floor that keeps zeros harmless; where
       validation shows that it decides better, by a bias or a scale a class (with a ridge).
    2. The priors are the posterior mean from calibrated outputs, shrunk towards the source priors
       or the uniform ones as far as the evidence supports; with no evidence of a shift they are
       the source priors. Validation's noise counts as well as the target's.
    3. Under prior shift the accuracy on each class is the same on validation and target. So the
       gain over no adaptation is known without target labels, with a standard error; predictions
       are adapted only if it exceeds `caution` standard errors.

    Intervals are those of the soft confusion matrix of calibrated outputs: wider than the estimate
    deserves where calibration is right, and true where it is not.

    `PriorEstimate.decision` says what was decided and why, and `priors` are the best estimate
    even where predictions are better left alone (`strength` 0).

    Parameters
    ----------
    caution : float, default=1.0
        Standard errors by which adapting must be expected to help.
    cv : int, default=5
        Folds for calibrating validation out of fold.
    random_state : None, int or Generator, default=None
        Shuffles rows into folds; None is the same shuffle every time.

    Examples
    --------
    >>> import priorshift as ps
    >>> from priorshift.datasets import load_fashion_lt
    >>> data = load_fashion_lt()
    >>> auto = ps.Auto(random_state=0).fit(
    ...     data.y_proba_val, data.y_val, source_priors=data.source_priors, classes=data.classes
    ... )
    >>> shift = auto.estimate(data.y_proba_target)
    >>> shift.decision["adapt"], shift.decision["calibration"]
    (True, 'ts')
    >>> truth = ps.priors_from_labels(data.y_target, classes=data.classes)
    >>> float(abs(shift.priors - truth).sum()) < 0.1
    True
    """

    name = "auto"
    _keeps_rows = True

    def __init__(
        self,
        *,
        caution: float = 1.0,
        cv: int = 5,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.caution, self.cv, self.random_state = caution, cv, random_state

    @property
    def _decision(self) -> Decision:
        return "soft"

    def fit(
        self, y_proba: ArrayLike | None = None, y: ArrayLike | None = None, **given: Any
    ) -> Self:
        """Calibrate on a labelled validation set; arguments as in `PriorEstimator.fit`."""
        check_count(self.cv, "cv", least=2)
        check_positive(self.caution, "caution")
        super().fit(y_proba, y, **given)
        rows = self._rows()
        if not self._label_priors()[self.confusion_.seen].any():
            raise ValueError(
                "validation has no sample of any class of source_label_priors; add such samples, "
                "or use EM."
            )
        self._outputs = calibrated_outputs(
            *rows,
            self._label_priors(),
            source_priors=None if self._given[0] is None else self.source_priors_,
            n_folds=self.cv,
            random_state=self.random_state,
        )
        return self

    def partial_fit(self, *_: Any, **__: Any) -> Self:
        """Refuse: calibrating needs all of validation at once."""
        raise ValueError("Auto calibrates on all of validation at once; use fit.")

    def _rows(self) -> tuple[Floats, Indices, Vector]:
        """Return validation's outputs, labels and weights."""
        assert self._validation is not None
        values, labels, weight = self._validation
        assert labels is not None
        return values, labels, np.ones(labels.size) if weight is None else weight

    def _label_priors(self) -> Vector:
        """Return the label priors that the source had, as far as they are known."""
        if all(priors is None for priors in self._given):
            return self.confusion_.class_frequencies
        return self.source_label_priors_

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        values, labels, weight = self._rows()
        n_target, y_proba = y_proba.shape[0], _looked_at(y_proba)
        sample = Sample(labels, weight)
        best, *further = [self._rule(outputs, y_proba) for outputs in self._outputs]
        for rule in further:
            more = validated_gain(best.shrunk.priors, rule.decisions, best.decisions, sample)
            if more.mean > BETTER * more.standard_error:
                best = rule
        nothing = Decisions(values, y_proba, np.ones(self.classes_.size))
        gain = expected_gain(best.shrunk.priors, best.decisions, nothing, sample)
        rows = (y_proba.shape[0], n_target)
        return self._explained(best, gain, self._judge(best, gain), rows)

    def _interval(
        self, y_proba: Rows, found: PriorEstimate, request: IntervalRequest
    ) -> PriorInterval:
        """Bound priors by the moments of calibrated outputs, which need no calibration to hold."""
        if request.method == "bootstrap" or not self.confusion_.seen.all():
            return super()._interval(y_proba, found, request)
        if request.method == "bayesian":
            raise ValueError("Auto has no Bayesian interval; use CM-M or SCM-M for a posterior.")
        outputs, (_, labels, weight) = self._outputs[0], self._rows()
        confusion = Confusion.from_arrays(
            outputs.y_proba, labels, decision="soft", sample_weight=weight
        )
        given = None if self._validation is None else self._validation.sample_weight
        calibrated = outputs.apply(_looked_at(y_proba))
        votes = Votes.of(confusion, calibrated, outputs.y_proba, labels, given)
        return votes.interval(found.priors, request)

    def _judge(self, rule: Rule, gain: Gain) -> Reason:
        """Tell why to adapt, or why not; warn of a class that nothing is known of."""
        if rule.shrunk.no_shift:
            return "no shift"
        if gain.mean <= self.caution * gain.standard_error:
            return "unsure"
        unknown = self._unknown_classes()
        if not unknown:
            return "helps"
        warn_user(
            f"{say_unknown(unknown)}: predictions are left alone. Give source_priors.",
            PriorShiftWarning,
        )
        return "unknown class"

    def _unknown_classes(self) -> list[Any]:
        """Return the classes that have neither validation samples nor a source prior."""
        given = any(priors is not None for priors in self._given)
        return [] if given else self.classes_[~self.confusion_.seen].tolist()

    def _rule(self, outputs: Outputs, y_proba: Floats) -> Rule:
        calibrated = outputs.apply(y_proba)
        n, n_val = y_proba.shape[0], outputs.y_proba.shape[0]
        own = float(calibrated.var(axis=0, dtype=np.float64).sum()) / n
        # rows that are all alike show no spread: one more, drawn as validation was, would show some
        own = max(own, outputs.noise * n_val / (n * (n + 1)))
        total = own + outputs.noise
        tempering = max(own / total, LEAST_TEMPERING) if total > 0 else 1.0
        shrunk = shrink_by_evidence(calibrated, outputs.source_priors, tempering)
        ratio = prior_ratio(shrunk.priors, outputs.source_priors)
        return Rule(outputs, shrunk, Decisions(outputs.y_proba, calibrated, ratio))

    def _explained(
        self, rule: Rule, gain: Gain, reason: Reason, rows: tuple[int, int]
    ) -> PriorEstimate:
        shrunk, adapts = rule.shrunk, reason == "helps"
        status: Status = "direct" if shrunk.no_shift else "stationary"
        if not shrunk.converged:
            status = "not_converged"
        solution = Solution(shrunk.priors, status, None, shrunk.n_iter)
        unseen = tuple(self.classes_[~self.confusion_.seen].tolist())
        result = self._result(shrunk.priors, solution, rows[0], unseen_classes=unseen)
        return replace(
            result,
            source_priors=rule.outputs.source_priors,
            source_priors_from=self._source_of(rule.outputs),
            calibrator=rule.outputs.calibrator if adapts else None,
            strength=1.0 if adapts else 0.0,
            decision=state_decision(
                rule.outputs, shrunk, gain, reason, self._unknown_classes(), rows
            ),
        )

    def _source_of(self, outputs: Outputs) -> str:
        """Say where the denominator of the ratio is from, and whether it was given."""
        source_priors, label_priors = self._given
        if outputs.calibrator is None and source_priors is not None:
            return "given"
        mean = "mean prediction" if outputs.calibrator is None else "mean calibrated prediction"
        if label_priors is not None:
            return f"{mean} on validation at source_label_priors"
        if source_priors is not None:
            return f"{mean} on validation at source_priors"
        return f"{mean} on validation, taken to be drawn as the training set was"


def _looked_at(y_proba: Rows) -> Floats:
    """Return the rows that rules are compared on: all, or a sample where they are too many."""
    n, K = y_proba.shape
    few = n * K <= (SAMPLE_NUMBERS if isinstance(y_proba, Table) else LARGEST_ARRAY)
    return sample_rows(y_proba, n if few else SAMPLE_NUMBERS // K)
