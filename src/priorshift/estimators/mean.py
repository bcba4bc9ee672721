r"""The mean of calibrated probabilities: class shares if what each prediction means has stayed.

Prior shift says that each class looks as it did, p(x|y), and finds the class balance that makes the
target's predictions likely. Covariate shift says the opposite: other cases came, but what a
prediction means, p(y|x), has stayed. Then the shares are simply

.. math:: \hat p_k = \frac1n \sum_i q_k(x_i)

with q the calibrated probabilities. It is also the first step of EM from the source priors: the two
readings of one target start alike, and prior shift goes on to the end of the road.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, stdtrit

from priorshift._typing import Floats, Indices, Vector
from priorshift.border import Block, Rows, check_count, map_reduce, sample_rows
from priorshift.calibration import (
    AveragedCalibration,
    CalibrationAverage,
    apply_each,
    average_calibration,
)
from priorshift.estimators.base import PriorEstimator
from priorshift.estimators.data import SourceBalance, source_balance
from priorshift.estimators.references import GONZALEZ
from priorshift.estimators.result import PriorEstimate
from priorshift.exceptions import argument
from priorshift.intervals import IntervalRequest, PriorInterval
from priorshift.solvers import Solution

JACKKNIFE_ROWS = 5000
"""Rows of the target that are calibrated again without each fold."""


class CalibratedMean(PriorEstimator):
    r"""Average calibrated probabilities: right where p(y|x) stayed, wrong under prior shift.

    The counterpart of all other methods here, for shifts where features cause the class: other
    customers, other patients, another season. `assess` compares the two readings. Outputs are
    calibrated as by `Auto`, by an average of maps; `adapt` calibrates and does nothing else.

    The squared half-width of the interval of class k is

    .. math:: z^2 \operatorname{Var}(q_k) / n + 2 t^2 J_{kk}

    with J the jackknife's variance over calibrators fitted without each of F folds, t the quantile
    of F - 1 degrees of freedom. For the shares of these very rows (``estimand="sample"``) the first
    variance is the mean of :math:`q_k (1 - q_k)`.

    Parameters
    ----------
    cv : int, default=5
        Folds for calibrating validation out of fold.
    random_state : None, int or Generator, default=None
        Shuffles rows into folds; None is the same shuffle every time.

    References
    ----------
    González, Moreo and Sebastiani: Binary quantification and dataset shift. 2024.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.uniform(size=4000)
    >>> ill = (rng.uniform(size=4000) < risk).astype(int)
    >>> mean = ps.CalibratedMean().fit(risk, ill)
    >>> mean.estimate(0.5 + risk[:1000] / 2).priors.round(1)  # older patients, the same risks
    array([0.2, 0.8])
    """

    name = "mean"
    summary = "averages calibrated probabilities, which is right where features cause the class"
    reference = GONZALEZ
    decision = "soft"
    outputs = "calibrated"
    _keeps_rows = True

    def __init__(
        self, *, cv: int = 5, random_state: int | np.random.Generator | None = None
    ) -> None:
        self.cv, self.random_state = cv, random_state

    @classmethod
    def beside(cls, auto: CalibratedMean) -> Self:
        """Return the mean by the calibration that Auto has fitted already."""
        fitted = cls()
        fitted.__dict__.update(vars(auto))  # Auto's own parameters do no harm
        return fitted

    def fit(
        self,
        y_proba: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        groups: Indices | None = None,
        **given: Any,
    ) -> Self:
        """Calibrate on a labelled validation set; arguments as in `PriorEstimator.fit`.

        `groups`, as numbers from 0, keep rows of one person, day or site in the same fold.
        """
        check_count(self.cv, "cv", least=2)
        super().fit(y_proba, y, **given)
        rows = self._evidence.rows
        self._balance: SourceBalance = source_balance(self._evidence)
        if not self._balance.priors[self.confusion_.seen].any():
            raise ValueError(
                f"validation has no sample of any class of {argument('source_label_priors')}; add "
                "such samples, or use EM."
            )
        self._denominator = self._balance.priors  # calibrated outputs stand for label priors
        self._calibration: AveragedCalibration = average_calibration(
            rows.y_proba,
            rows.y,
            rows.weight,
            self._balance.priors,
            n_folds=self.cv,
            random_state=self.random_state,
            groups=groups,
        )
        return self

    def out_of_fold(self) -> Floats:
        """Return validation, each row calibrated by maps that did not see its fold."""
        found = np.empty_like(self._calibration.y_proba)
        found[self._calibration.order] = self._calibration.y_proba
        return found

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        average = self._calibration.average
        total = map_reduce(partial(_sum_calibrated, average), y_proba, exact=True)
        priors = total / total.sum()
        found = self._result(priors, Solution(priors, "direct"), y_proba.shape[0])
        return replace(
            found, source_priors_from=self._balance.words, calibrator=average, strength=0.0
        )

    def _interval(
        self, y_proba: Rows, found: PriorEstimate, request: IntervalRequest
    ) -> PriorInterval:
        if request.method not in ("auto", "asymptotic"):
            return super()._interval(y_proba, found, request)
        if len(self._calibration.folds) < 2:  # nothing tells how wrong the calibrator is
            everything = np.ones_like(found.priors)
            return PriorInterval.around(
                found.priors, 0 * everything, everything, everything, "asymptotic"
            )
        some = sample_rows(y_proba, JACKKNIFE_ROWS)
        one = np.asarray(self._calibration.average.apply(some), np.float64)
        spread = one * (1 - one) if request.estimand == "sample" else (one - one.mean(axis=0)) ** 2
        refits = np.array([fold.mean(axis=0) for fold in apply_each(self._calibration.folds, some)])
        noise = spread.mean(axis=0) / y_proba.shape[0]
        F, z = len(refits), request.z(found.priors.size)
        jackknife = 2 * (F - 1) / F * ((refits - refits.mean(axis=0)) ** 2).sum(axis=0)
        half = np.sqrt(z**2 * noise + stdtrit(F - 1, ndtr(z)) ** 2 * jackknife)
        return PriorInterval.around(
            found.priors,
            found.priors - half,
            found.priors + half,
            np.sqrt(noise + jackknife),
            "asymptotic",
        )


def _sum_calibrated(calibration: CalibrationAverage, block: Block, _: slice) -> Vector:
    return np.asarray(calibration.apply(block).sum(axis=0, dtype=np.float64))
