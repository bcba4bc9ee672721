"""EM on calibrated outputs: calibrator, source priors and map in one estimator."""

from copy import copy
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from priorshift._typing import Floats, Mask, Vector
from priorshift._validation import check_choice, check_count, some
from priorshift.calibration import (
    FAMILIES,
    ChosenCalibration,
    choose_calibration,
    ridges_of,
)
from priorshift.estimators.base import Fitting, Known, Learned, PriorEstimator
from priorshift.estimators.counts import Validation, ValidationCounts
from priorshift.estimators.em import EM, posterior_problem
from priorshift.estimators.references import ALEXANDARI
from priorshift.estimators.result import PriorEstimate
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning, warn_user
from priorshift.execution import ArrayTable, Rows, Table
from priorshift.uncertainty import IntervalRequest, PriorInterval

LARGEST_COPY = 100_000_000
"""Rows times classes up to which calibrated outputs are kept: calibrating again takes longer."""


class CalibratedEM(PriorEstimator):
    r"""EM on outputs that are calibrated first, all fitted on validation (Alexandari et al., 2020).

    Outputs become :math:`g(x) = \mathrm{softmax}(v \circ \log (f(x) + \varepsilon) + b)`, with a
    floor :math:`\varepsilon` of the best likelihood so that zeros are not final, and EM's
    denominator the mean *calibrated* prediction under the source's class balance :math:`p^N`,

    .. math:: p_{T} = \sum_k p^N_k\, \overline{g(x)}_{y = k},

    from validation rows that the calibrator did not see. The result carries the calibrator, so that
    `estimate(y_proba).adapt(y_proba)` takes the classifier's own outputs. `source_label_priors`
    are :math:`p^N`, or else `source_priors` if given; by default validation is taken to be drawn as
    the training set was. EM trusts outputs to be calibrated, and most are not.

    Parameters
    ----------
    calibrator : {"bcts", "ts", "vs"}, default="bcts"
        Temperature with a bias per class, temperature alone, or scale and bias per class.
    ridge : float, "cv" or None, default="cv"
        Penalty on the biases, as in `BCTS`; unused by "ts".
    cv : int, default=5
        Folds, for the ridge and for the mean calibrated prediction.
    tol : float, default=0.01
        Duality gap in nats to reach.
    max_iter : int, default=1000
        Most passes over the target.
    random_state : None, int or Generator, default=None
        Shuffles rows before they are dealt to folds; None is the same shuffle every time.

    Attributes
    ----------
    recalibration_ : CalibrationMap
        The fitted map.
    ridge_ : float
        The penalty used.
    source_priors_ : ndarray of shape (n_classes,)
        Mean calibrated prediction under the source's class balance.
    confusion_ : Confusion
        Soft, of calibrated outputs.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> rng = np.random.default_rng(0)
    >>> y_val, y = rng.choice(2, 4000), rng.choice(2, 4000, p=[0.8, 0.2])
    >>> logits_val, logits = (rng.normal(2 * label - 1) for label in (y_val, y))
    >>> too_sure_val, too_sure = (1 / (1 + np.exp(-6 * z)) for z in (logits_val, logits))
    >>> shift = ps.CalibratedEM(calibrator="ts").fit(too_sure_val, y_val).estimate(too_sure)
    >>> shift.priors.round(1), shift.calibrator.slope.round(1)
    (array([0.8, 0.2]), array([0.3, 0.3]))
    """

    name = "em-bcts"
    other_names = ("em-ts", "em-vs")
    summary = "calibrates the probabilities, then maximises their likelihood"
    reference = ALEXANDARI
    _decision = "soft"
    keeps_rows = True
    calibrates = True

    def __init__(
        self,
        *,
        calibrator: Literal["bcts", "ts", "vs"] = "bcts",
        ridge: float | Literal["cv"] | None = "cv",
        cv: int = 5,
        tol: float = 0.01,
        max_iter: int = 1000,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.calibrator, self.ridge, self.cv = calibrator, ridge, cv
        self.tol, self.max_iter, self.random_state = tol, max_iter, random_state

    def _learn(self, fitting: Fitting) -> Learned:
        classes, given, counts, rows = fitting
        assert counts is not None
        assert rows is not None
        check_choice(self.calibrator, tuple(FAMILIES), "calibrator")
        label_priors = given.label_priors(classes)

        def learn() -> tuple[dict[str, Any], str, ValidationCounts]:
            ordered = rows.in_canonical_order()
            chosen = self._calibrate(ordered, label_priors)
            # calibrating must not bring to life what validation neither has nor ever sees predicted
            dead = (counts.predicted.counts <= 0) & ~counts.by_class.seen
            learned = {"recalibration_": chosen.map, "ridge_": chosen.ridge}
            return learned, chosen.trouble, _counts_of(ordered, chosen.y_proba, dead)

        if rows.checked is None or isinstance(self.random_state, np.random.Generator):
            learned, trouble, calibrated = learn()
        else:  # once for all methods that calibrate the same predictions alike
            key = repr(("calibrated", self.calibrator, self.ridge, self.cv, self.random_state))
            known = (rows.labels, rows.sample_weight, label_priors)
            learned, trouble, calibrated = rows.checked.once(rows.y_proba, key, known, learn)
        if trouble:
            message = f"the calibrator of {self.name} did not converge: {trouble}."
            warn_user(message, ConvergenceWarning)
        return learned, calibrated

    def _sources(self, counts: ValidationCounts | None, known: Known) -> tuple[Vector, str]:
        labels = known.best_labels
        assert counts is not None
        source = _kept_alive(super()._sources(counts, Known(None, labels))[0], labels, counts)
        where = ", taken to be drawn as the training set was"
        if labels is not None:
            where = " at source_priors" if known.labels is None else " at source_label_priors"
        return source, f"mean calibrated prediction on validation{where}"

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        problem = posterior_problem(self._calibrated(y_proba), self.source_priors_)
        solution = self._maximise(problem, self.source_priors_)
        result = self._explained(self._result(solution.value, solution, y_proba.shape[0]))
        method = self.name
        if method == CalibratedEM.name:
            method = f"em-{self.recalibration_.name}"
        return replace(result, method=method)

    def _explained(self, found: PriorEstimate) -> PriorEstimate:
        """Add the calibrator to an estimate; warn of classes that it could not learn about."""
        unseen = tuple(self.classes_[~self.confusion_.seen].tolist())
        if unseen:
            warn_user(
                f"validation has no sample of class {some(list(unseen))}: its outputs are "
                "calibrated by the temperature alone, and EM's estimate of it rests on that. Give "
                "validation samples of every class.",
                PriorShiftWarning,
            )
        return replace(
            found,
            calibrator=self.recalibration_,
            source_priors_from=self.source_priors_from_,
            unseen_classes=unseen,
        )

    def _calibrated(self, y_proba: Rows) -> Rows:
        """Calibrate the target: a copy, or block by block in every pass where that is too large."""
        if not isinstance(y_proba, Table) and y_proba.size > LARGEST_COPY:
            y_proba = ArrayTable(y_proba)
        calibrated: Rows = self.recalibration_.apply(y_proba)
        return calibrated

    def _interval(
        self, y_proba: Rows, found: PriorEstimate, request: IntervalRequest
    ) -> PriorInterval:
        """Bound the priors as EM does, the calibrator given; a bootstrap fits it anew."""
        if request.method == "bootstrap":
            fixed = copy(self)
            fixed.ridge = self.ridge_  # choosing it anew for every resample would take too long
            return super(CalibratedEM, fixed)._interval(y_proba, found, request)
        rows, apply = self._validation_rows(), self.recalibration_.apply
        em = EM(tol=self.tol, max_iter=self.max_iter).fit(
            apply(rows.y_proba),
            self.classes_[rows.labels],
            source_label_priors=self._given.label_priors(self.classes_),
            classes=self.classes_,
            sample_weight=rows.sample_weight,
        )
        em.source_priors_ = self.source_priors_  # the same mean, but out of fold
        return em._interval(self._calibrated(y_proba), found, request)

    def _calibrate(self, rows: Validation, label_priors: Vector | None) -> ChosenCalibration:
        """Fit the calibrator."""
        return choose_calibration(
            rows.y_proba,
            rows.labels,
            rows.weight,
            label_priors,
            calibrator=self.calibrator,
            ridges=(0.0,) if self.calibrator == "ts" else ridges_of(self.ridge),
            n_folds=check_count(self.cv, "cv", least=2),
            random_state=self.random_state,
        )


def _kept_alive(source: Vector, known: Vector | None, counts: ValidationCounts) -> Vector:
    """Give every class that validation has at least its share of one more row.

    A classifier may never predict it, or a steep map take its mean to 0, which EM would divide by.
    """
    share = np.full_like(source, 1 / source.size) if known is None else known
    least = np.where(counts.by_class.seen, share / (counts.predicted.n_samples + 1), 0.0)
    if (source >= least).all():
        return source
    source = np.maximum(source, least)
    return source / source.sum()


def _counts_of(rows: Validation, calibrated: Floats, dead: Mask) -> ValidationCounts:
    """Count validation as calibrated, without mass for classes that are never predicted."""
    if dead.any():
        calibrated = np.where(dead, 0, calibrated).astype(calibrated.dtype)
        calibrated /= calibrated.sum(axis=1, keepdims=True)
    rows = rows._replace(y_proba=calibrated)
    return ValidationCounts.of(rows, decision="soft", needs_soft=True)
