r"""NA, CM, SCM, BBSE, BBSE-S and RLLS: no likelihood, but the equations q = C p themselves.

CM and SCM solve :math:`C p = q` for the priors, BBSE, BBSE-S and RLLS :math:`J w = q` for the
ratio :math:`w = p / p_T`, with :math:`J = C\,\mathrm{diag}(p_T)`. Where estimates of C and q do not
fit together the plain solution has negative entries; it is kept as `raw`, and clipped.
"""

import warnings
from typing import Any

import numpy as np

from priorshift._typing import Floats, Mask, Vector
from priorshift._validation import check_choice, check_fraction, check_positive
from priorshift.adaptation import prior_ratio
from priorshift.estimators._base import PriorEstimator
from priorshift.estimators._evidence import Evidence, TargetCounts
from priorshift.estimators._result import PriorEstimate
from priorshift.exceptions import PriorShiftWarning
from priorshift.solvers import (
    Solution,
    condition_number,
    regularised_ratio,
    simplex_least_squares,
    solve_linear,
)
from priorshift.statistics import Decision


class NoAdaptation(PriorEstimator):
    """The baseline that leaves predictions alone: the target priors are the source priors.

    Examples
    --------
    >>> import priorshift as ps
    >>> ps.NoAdaptation().fit(source_priors=[0.7, 0.3]).adapt([[0.2, 0.8]])
    array([[0.2, 0.8]])
    """

    name = "na"

    def _estimate(self, y_proba: Floats) -> PriorEstimate:
        solution = Solution(self.source_priors_, "direct")
        return self._result(solution.value, solution, y_proba.shape[0])


class CM(PriorEstimator):
    """Invert the confusion matrix of hard decisions: p = C^-1 q, clipped (McLachlan, 1992).

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_val = np.repeat([0, 1], 10)
    >>> decisions = np.repeat([0, 1, 0, 1], [8, 2, 2, 8])
    >>> cm = ps.CM().fit(np.eye(2)[decisions], y_val)
    >>> cm.estimate(np.array([[1.0, 0.0], [0.0, 1.0]])).priors.round(3)
    array([0.5, 0.5])
    """

    name = "cm"

    @property
    def _decision(self) -> Decision:
        return "hard"

    def _estimate(self, y_proba: Floats) -> PriorEstimate:
        return _invert_for_priors(self, y_proba)


class SCM(PriorEstimator):
    """Invert the confusion matrix of soft decisions: p = C^-1 q, clipped.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_val = np.array([0, 0, 1, 1])
    >>> y_proba_val = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.2, 0.8]])
    >>> y_proba = np.array([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]])
    >>> ps.SCM().fit(y_proba_val, y_val).estimate(y_proba).priors.round(3)
    array([0.667, 0.333])
    """

    name = "scm"

    @property
    def _decision(self) -> Decision:
        return "soft"

    def _estimate(self, y_proba: Floats) -> PriorEstimate:
        return _invert_for_priors(self, y_proba)


class BBSE(PriorEstimator):
    """Black-box shift estimation of the ratio, w = J^-1 q (Lipton et al., 2018).

    Without `source_priors`, J is the joint confusion matrix of validation as it is: the ratio is
    then to the balance of validation's labels, and nothing need be known of the training set.

    Parameters
    ----------
    constrained : bool, default=False
        Solve min ||Jw - q|| with w >= 0 and p_T . w = 1 instead of clipping.
    tol : float, default=1e-9
        Duality gap of the constrained problem to reach.
    solver : {"certified", "paper"}, default="certified"
        "paper" keeps negative ratios as they are, as the released code does: adapted
        "probabilities" may then be negative.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_val = np.repeat([0, 1], 10)
    >>> decisions = np.repeat([0, 1, 0, 1], [8, 2, 2, 8])
    >>> bbse = ps.BBSE().fit(np.eye(2)[decisions], y_val)
    >>> bbse.estimate(np.eye(2)[[0, 0, 1]]).ratio.round(3)
    array([1.556, 0.444])
    """

    name = "bbse"

    def __init__(
        self, *, constrained: bool = False, tol: float = 1e-9, solver: str = "certified"
    ) -> None:
        self.constrained, self.tol, self.solver = constrained, tol, solver

    @property
    def _decision(self) -> Decision:
        return "hard"

    def _sources_by_default(
        self, evidence: Evidence, label_priors: Vector | None
    ) -> tuple[Vector, str]:
        return _label_sources(evidence, label_priors)

    def _estimate(self, y_proba: Floats) -> PriorEstimate:
        return _invert_for_ratio(self, y_proba)


class BBSES(PriorEstimator):
    """Black-box shift estimation from soft decisions: BBSE-S, w = J^-1 q.

    Parameters
    ----------
    constrained : bool, default=False
        Solve min ||Jw - q|| with w >= 0 and p_T . w = 1 instead of clipping.
    tol : float, default=1e-9
        Duality gap of the constrained problem to reach.
    solver : {"certified", "paper"}, default="certified"
        "paper" keeps negative ratios as they are, as the released code does: adapted
        "probabilities" may then be negative.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_val = np.array([0, 0, 1, 1])
    >>> y_proba_val = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.2, 0.8]])
    >>> y_proba = np.array([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]])
    >>> ps.BBSES().fit(y_proba_val, y_val).estimate(y_proba).ratio.round(3)
    array([1.333, 0.667])
    """

    name = "bbse-s"

    def __init__(
        self, *, constrained: bool = False, tol: float = 1e-9, solver: str = "certified"
    ) -> None:
        self.constrained, self.tol, self.solver = constrained, tol, solver

    @property
    def _decision(self) -> Decision:
        return "soft"

    def _sources_by_default(
        self, evidence: Evidence, label_priors: Vector | None
    ) -> tuple[Vector, str]:
        return _label_sources(evidence, label_priors)

    def _estimate(self, y_proba: Floats) -> PriorEstimate:
        return _invert_for_ratio(self, y_proba)


class RLLS(PriorEstimator):
    r"""Regularised learning of the ratio (Azizzadenesheli et al., 2019).

    .. math:: \min_{\theta \ge -1}\ \|J\theta - (q - J1)\|_2 + \lambda\rho\,\|\theta\|_2,
        \qquad w = 1 + \gamma\theta

    with :math:`\rho = 3\,(2 \ln(2K/\delta) / (3 n) + \sqrt{2 \ln(2K/\delta) / n})` for n validation
    samples. Both norms are plain, not squared.

    Parameters
    ----------
    regularization : float, default=0.01
        lambda.
    delta : float, default=0.05
        Failure probability that rho allows for.
    gamma : float in [0, 1], default=1
        Trust in the estimated shift.
    decision : {"hard", "soft"}, default="hard"
        Confusion matrix to use.
    tol : float, default=1e-6
        Duality gap to reach.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_val = np.repeat([0, 1], 10)
    >>> decisions = np.repeat([0, 1, 0, 1], [8, 2, 2, 8])
    >>> rlls = ps.RLLS().fit(np.eye(2)[decisions], y_val)
    >>> shift = rlls.estimate(np.eye(2)[[0, 0, 1]])
    >>> shift.ratio.round(3), shift.status
    (array([1.556, 0.444]), 'certified')
    """

    name = "rlls"

    def __init__(
        self,
        *,
        regularization: float = 0.01,
        delta: float = 0.05,
        gamma: float = 1.0,
        decision: Decision = "hard",
        tol: float = 1e-6,
    ) -> None:
        self.regularization, self.delta, self.gamma = regularization, delta, gamma
        self.decision, self.tol = decision, tol

    @property
    def _decision(self) -> Decision:
        check_choice(self.decision, ("hard", "soft"), "decision")
        return self.decision

    def _sources_by_default(
        self, evidence: Evidence, label_priors: Vector | None
    ) -> tuple[Vector, str]:
        return _label_sources(evidence, label_priors)

    def _estimate(self, y_proba: Floats) -> PriorEstimate:
        gamma = check_fraction(self.gamma, "gamma")
        penalty = check_positive(self.regularization, "regularization") * self._deviation_bound()
        J, q, source, target = _ratio_equations(self, y_proba)
        solution = regularised_ratio(J, q, penalty, tol=check_positive(self.tol, "tol"))
        raw = 1 + gamma * (solution.value - 1)
        return _from_ratio(self, raw, source, target, solution, y_proba, condition_number(J))

    def _deviation_bound(self) -> float:
        """Return rho: how far J may be from the truth with probability 1 - delta."""
        log_term = 2 * np.log(2 * self.classes_.size / check_positive(self.delta, "delta"))
        n = self.confusion_.n_samples
        return float(3 * (log_term / (3 * n) + np.sqrt(log_term / n)))


def _invert_for_priors(estimator: Any, y_proba: Floats) -> PriorEstimate:
    """Solve C p = q; keep the solution as it is, and clip it into the simplex."""
    confusion = estimator.confusion_
    target = TargetCounts.of(y_proba, confusion, estimator.source_priors_)
    unseen = estimator._warn_of_unseen(target.seen)
    C = confusion.conditional[:, target.seen]
    raw = solve_linear(C, target.counts.frequencies)
    _warn_of_clipping(estimator, raw, target.seen)
    return estimator._result(
        target.complete(_clip(raw)),
        Solution(raw, "direct"),
        y_proba.shape[0],
        raw=target.complete(raw),
        condition_number=condition_number(C),
        unseen_classes=unseen,
    )


def _invert_for_ratio(estimator: Any, y_proba: Floats) -> PriorEstimate:
    """Solve J w = q plainly, or with w kept a ratio of priors."""
    check_choice(estimator.solver, ("certified", "paper"), "solver")
    J, q, source, target = _ratio_equations(estimator, y_proba)
    if estimator.constrained:
        C = estimator.confusion_.conditional[:, target.seen]
        solution = simplex_least_squares(C, q, tol=check_positive(estimator.tol, "tol"))
        raw = prior_ratio(solution.value, source)
    else:
        raw = solve_linear(J, q)
        solution = Solution(raw, "direct")
    return _from_ratio(estimator, raw, source, target, solution, y_proba, condition_number(J))


def _ratio_equations(
    estimator: Any, y_proba: Floats
) -> tuple[Vector, Vector, Vector, TargetCounts]:
    """Return J, q, the source priors and the counts, all among the classes that were seen."""
    confusion = estimator.confusion_
    target = TargetCounts.of(y_proba, confusion, estimator.source_priors_)
    source = estimator.source_priors_[target.seen]
    source = source / source.sum()
    J = confusion.conditional[:, target.seen] * source
    return J, target.counts.frequencies, source, target


def _from_ratio(
    estimator: Any,
    raw: Vector,
    source: Vector,
    target: TargetCounts,
    solution: Solution,
    y_proba: Floats,
    condition: float,
) -> PriorEstimate:
    """Turn a ratio among the seen classes into priors, clipped unless the paper's way is asked."""
    unseen = estimator._warn_of_unseen(target.seen)
    as_priors = target.complete(raw * source)
    priors = as_priors
    if getattr(estimator, "solver", "certified") != "paper":
        _warn_of_clipping(estimator, raw, target.seen)
        priors = target.complete(_clip(raw * source))
    return estimator._result(
        priors,
        solution,
        y_proba.shape[0],
        raw=prior_ratio(as_priors, estimator.source_priors_),
        condition_number=condition,
        unseen_classes=unseen,
    )


def _label_sources(evidence: Evidence, label_priors: Vector | None) -> tuple[Vector, str]:
    """Take the balance of labels as source priors: what a ratio from J is a ratio to."""
    if label_priors is not None:
        return label_priors, "source_label_priors"
    assert evidence.confusion is not None
    predicted, seen = evidence.predicted.frequencies, evidence.confusion.seen
    labels = evidence.confusion.class_frequencies * predicted[seen].sum()
    return np.where(seen, labels, predicted), "label frequencies of validation"


def _clip(raw: Vector) -> Vector:
    """Set negative entries to 0 and scale to sum 1."""
    clipped = np.maximum(raw, 0)
    return clipped / clipped.sum() if clipped.any() else np.full(raw.size, 1 / raw.size)


def _warn_of_clipping(estimator: Any, raw: Vector, seen: Mask) -> None:
    negative = raw < -1e-9
    if negative.any():
        worst = estimator.classes_[seen][np.argmin(raw)].item()
        warnings.warn(
            f"{estimator.name} found {np.count_nonzero(negative)} negative entries, the lowest "
            f"{raw.min():.3g} for class {worst!r}, and set them to 0 (kept in `raw`): confusion "
            "matrix and target decisions do not fit together. CM-L and SCM-L need no clipping.",
            PriorShiftWarning,
            stacklevel=5,
        )
