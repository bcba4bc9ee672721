"""EM where the labels of some target samples are known."""

from copy import copy
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from scipy.special import gammaln

from priorshift._typing import Indices, Vector
from priorshift.adapt import prior_ratio
from priorshift.border import Rows, check_choice, check_fraction, is_array, take_rows
from priorshift.calibration import FAMILIES
from priorshift.estimators.base import Learned, PriorEstimator
from priorshift.estimators.counts import Evidence, TargetLabels, Validation, ValidationCounts
from priorshift.estimators.em import CalibratedEM, posterior_problem
from priorshift.estimators.inputs import MOST_CELLS
from priorshift.estimators.references import SAERENS
from priorshift.estimators.result import PriorEstimate
from priorshift.exceptions import argument
from priorshift.intervals import (
    IntervalRequest,
    PriorInterval,
    bootstrap_draws,
    bootstrap_interval,
    poisson_weights,
    refute_calibration,
)
from priorshift.solvers import Mixture, Solution

HALVINGS = 12
"""How often the weight of unlabelled rows may be halved before it is 0."""

TOLERATED = 2.0
"""Nats by which labels may be less likely than under the best weight."""


class SemiSupervisedEM(PriorEstimator):
    r"""EM with a partly labelled target: known labels count as what they are.

    With :math:`n_k` labelled samples of class k, and the other samples i unlabelled, it maximises

    .. math:: \lambda \sum_i \log \sum_k \frac{f_k(x_i)}{p_{T,k}} p_k + \sum_k n_k \log p_k

    to a certificate: the mixture problem with :math:`\alpha_k = 1 + n_k`. Without labels it is EM,
    and without unlabelled samples it returns the label frequencies. Choose the samples to label at
    random from the target: not by class, not by confidence. Intervals resample labelled and
    unlabelled samples; they take source priors and calibrator as exact.

    EM trusts outputs to be calibrated. Where a labelled validation set refutes that, outputs are
    calibrated first. Where the labels of the target contradict what EM finds without them,
    unlabelled samples count for less (:math:`\lambda < 1`).

    Parameters
    ----------
    calibrator : {"auto", "bcts", "ts", "vs"} or None, default="auto"
        How to calibrate on the validation set given to `fit`: see `CalibratedEM`. "auto" is "bcts"
        where validation refutes that outputs are calibrated, and None where it does not. Without a
        labelled validation set nothing is calibrated.
    unlabelled_weight : float in [0, 1] or "auto", default="auto"
        :math:`\lambda`, what an unlabelled sample counts for beside a labelled one. "auto" is the
        largest power of 1/2 under which the known labels are not much less likely than under the
        best one.
    tol : float, default=0.01
        Duality gap in nats to reach.
    max_iter : int, default=1000
        Most passes over the target.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.9, 0.1], [0.2, 0.8]])
    >>> em = ps.SemiSupervisedEM().fit(source_priors=[0.5, 0.5])
    >>> em.estimate(y_proba).priors.round(2)
    array([0.9, 0.1])
    >>> em.estimate(y_proba, y_target=[0, 1, None, None]).priors.round(2)
    array([0.53, 0.47])
    """

    name = "em-labels"
    summary = (
        "maximises the likelihood of the predicted probabilities and of the labels that are known"
    )
    reference = SAERENS
    outputs = "trusted"
    target_labels = "used"

    def __init__(
        self,
        *,
        calibrator: Literal["auto", "bcts", "ts", "vs"] | None = "auto",
        unlabelled_weight: float | Literal["auto"] = "auto",
        tol: float = 0.01,
        max_iter: int = 1000,
    ) -> None:
        self.calibrator, self.unlabelled_weight = calibrator, unlabelled_weight
        self.tol, self.max_iter = tol, max_iter

    @property
    def _keeps_rows(self) -> bool:  # type: ignore[override]
        """Whether `fit` keeps validation row by row: to calibrate on it."""
        return self.calibrator is not None

    @property
    def _denominator(self) -> Vector:
        return self.source_priors_ if self._calibrated is None else self._calibrated.source_priors_

    def _learn(self, evidence: Evidence) -> Learned:
        rows = evidence.rows
        if self.calibrator is not None:
            check_choice(self.calibrator, ("auto", *FAMILIES), "calibrator")
        calibrated, must = None, False
        if self.calibrator is not None and rows is not None and rows.y is not None:
            known = rows.y_proba, rows.y, rows.sample_weight, evidence.given.best_labels
            must = self.calibrator != "auto" or refute_calibration(*known) is not None
        if must:
            assert rows is not None
            name: Any = "bcts" if self.calibrator == "auto" else self.calibrator
            calibrated = CalibratedEM(calibrator=name, tol=self.tol, max_iter=self.max_iter)
            needs_soft = evidence.given.needs_soft
            soft = ValidationCounts.of(rows, decision="soft", needs_soft=needs_soft)
            calibrated._settle(replace(evidence, counts=soft))
        return {"_calibrated": calibrated}, evidence.counts

    def _warn_of_mismatch(self, rows: Validation) -> None:
        if self._calibrated is None:
            super()._warn_of_mismatch(rows)

    def _estimate_labelled(
        self, y_proba: Rows, labels: TargetLabels, request: IntervalRequest | None
    ) -> PriorEstimate:
        if labels.weight is not None:
            raise ValueError(
                "SemiSupervisedEM takes all rows to have had the same chance of a label; leave "
                "out sample_weight, or use PPI."
            )
        if request is not None and (
            request.method not in ("auto", "bootstrap") or request.estimand == "sample"
        ):
            raise ValueError(
                f"with {argument('y_target')} SemiSupervisedEM has intervals by bootstrap only, "
                "and of the population's share; leave out "
                f"{argument('interval_method')} and estimand."
            )
        counts = np.bincount(labels.y, minlength=self.classes_.size).astype(np.float64)
        rows = self._unlabelled(y_proba, labels.rows)
        found = self._most_likely(rows, counts, y_proba.shape[0])
        if request is None:
            return found
        # labelled and unlabelled rows are drawn each among themselves; source and calibrator stay
        n_labels = labels.rows.size

        def replicate(rng: np.random.Generator) -> Vector:
            drawn = rng.multinomial(n_labels, counts / n_labels).astype(np.float64)
            times = None if rows is None else poisson_weights(rows.shape[0], rng)
            return self._solution(rows, drawn, times).value

        draws = bootstrap_draws(replicate, request.n_resamples, request.rng)
        bounds = bootstrap_interval(draws, found.priors, found.priors, found.n_target, request)
        return found.with_interval(bounds, request)

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        rows = self._unlabelled(y_proba, np.zeros(0, dtype=np.intp))
        return self._most_likely(rows, np.zeros(self.classes_.size), y_proba.shape[0])

    def _interval(
        self, y_proba: Rows, found: PriorEstimate, request: IntervalRequest
    ) -> PriorInterval:
        """Bound the priors without labels: as `CalibratedEM` does, or by resampling."""
        if self._calibrated is not None:
            return self._calibrated._interval(y_proba, found, request)
        plain = copy(self)
        plain.calibrator = None  # whether to calibrate is not asked anew for every resample
        return super(SemiSupervisedEM, plain)._interval(y_proba, found, request)

    def _most_likely(self, rows: Rows | None, counts: Vector, n_target: int) -> PriorEstimate:
        solution = self._solution(rows, counts)
        result = self._result(solution.value, solution, n_target)
        return result if self._calibrated is None else self._calibrated._explained(result)

    def _unlabelled(self, y_proba: Rows, labelled: Indices) -> Rows | None:
        """Return the rows without a label, calibrated if need be; None if there are none."""
        if labelled.size == y_proba.shape[0]:
            return None
        rows = y_proba
        if labelled.size:
            others = np.delete(np.arange(y_proba.shape[0]), labelled)
            if not is_array(y_proba) and others.size * y_proba.shape[1] > MOST_CELLS:
                raise ValueError(
                    f"SemiSupervisedEM needs the {others.size:,} rows without a label in memory, "
                    "which are too many; use PPI, which goes through any number of them, or give "
                    f"fewer rows (up to {MOST_CELLS // y_proba.shape[1]:,})."
                )
            rows = take_rows(y_proba, others)
        return rows if self._calibrated is None else self._calibrated._calibrated(rows)

    def _solution(self, rows: Rows | None, counts: Vector, times: Vector | None = None) -> Solution:
        """Weigh unlabelled rows, each of them `times`, as the labels allow, and maximise."""
        source, weight, passes = self._denominator, 0.0, 0
        if rows is not None:
            weight, passes = self._settled_weight(rows, counts)
        if rows is None or weight == 0:  # nothing but labels
            return Solution(counts / counts.sum(), "direct")
        each = np.ones(rows.shape[0]) if times is None else times
        problem = Mixture.of(
            rows,
            scale=prior_ratio(np.ones_like(counts), source),
            weights=None if weight == 1 and times is None else weight * each,
            alpha=1 + counts,
        )
        solution = self._maximise(problem, source)
        return replace(solution, n_iter=solution.n_iter + passes)

    def _settled_weight(self, rows: Rows, counts: Vector) -> tuple[float, int]:
        """Return the weight of an unlabelled row, and the passes that it cost to find."""
        weight = self.unlabelled_weight
        if not isinstance(weight, str):
            weight = check_fraction(weight, "unlabelled_weight")
            return (weight if counts.any() else 1.0), 0
        check_choice(weight, ("auto",), "unlabelled_weight")
        if not counts.any():
            return 1.0, 0
        alone = self._maximise(posterior_problem(rows, self._denominator), self._denominator)
        return weight_of_unlabelled(counts, alone.value, rows.shape[0]), alone.n_iter


def weight_of_unlabelled(counts: Vector, priors: Vector, n_unlabelled: int) -> float:
    r"""Return what an unlabelled row may count for, given labels of the same target.

    If n unlabelled rows lead to the priors p, they are worth a Dirichlet distribution
    :math:`\mathrm{Dir}(\lambda n p + 1/2)`, under which the labels have a likelihood. The weight is
    the largest that is not much less likely than the best.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array([70.0, 30.0])
    >>> weight_of_unlabelled(labels, np.array([0.7, 0.3]), 1000)
    1.0
    >>> weight_of_unlabelled(labels, np.array([0.3, 0.7]), 1000)
    0.0078125
    """
    weights = np.append(0.5 ** np.arange(HALVINGS), 0.0)
    a = weights[:, None] * n_unlabelled * priors + 0.5
    total = a.sum(axis=1)
    nats = gammaln(total) - gammaln(total + counts.sum())
    nats += (gammaln(a + counts) - gammaln(a)).sum(axis=1)
    return float(weights[np.argmax(nats >= nats.max() - TOLERATED)])
