r"""NA, CM, SCM, BBSE, BBSE-S and RLLS: no likelihood, but the equations q = C p themselves.

CM and SCM solve :math:`C p = q` for the priors, BBSE, BBSE-S and RLLS :math:`J w = q` for the
ratio :math:`w = p / p_T`, with :math:`J = C\,\mathrm{diag}(p_T)`. Where estimates of C and q do not
fit together the plain solution has negative entries; it is kept as `raw`, and clipped.
"""

from collections.abc import Callable

import numpy as np

from priorshift._typing import Labels, Vector
from priorshift._validation import check_choice, check_fraction, check_positive
from priorshift.adaptation import prior_ratio
from priorshift.estimators._base import Batch, PriorEstimator
from priorshift.estimators._decisions import DecisionEstimator
from priorshift.estimators._evidence import Evidence, TargetCounts
from priorshift.estimators._references import AZIZZADENESHELI, GUIDE, LIPTON, SAERENS
from priorshift.estimators._result import PriorEstimate
from priorshift.exceptions import PriorShiftWarning, warn_user
from priorshift.execution import Rows
from priorshift.solvers import (
    Solution,
    clip_to_simplex,
    condition_number,
    regularised_ratio,
    simplex_least_squares,
    solve_linear,
)
from priorshift.statistics import Decision

ROUNDING = 1e-9
"""How far below 0 an entry may be by rounding alone."""


class NoAdaptation(PriorEstimator):
    """The baseline that leaves predictions alone: the target priors are the source priors.

    Examples
    --------
    >>> import priorshift as ps
    >>> ps.NoAdaptation().fit(source_priors=[0.7, 0.3]).adapt([[0.2, 0.8]])
    array([[0.2, 0.8]])
    """

    name = "na"
    summary = "leaves the predictions alone"
    reference = GUIDE
    takes_sparse = True
    estimates_nothing = True

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        solution = Solution(self.source_priors_, "direct")
        return self._result(solution.value, solution, y_proba.shape[0])


class CM(DecisionEstimator):
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
    summary = "inverts the confusion matrix of hard decisions, then clips to the simplex"
    reference = SAERENS
    batch = "inversion"

    @property
    def _decision(self) -> Decision:
        return "hard"

    def _solve(self, target: TargetCounts) -> PriorEstimate:
        return _from_inversion(self, target)


class SCM(DecisionEstimator):
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
    summary = "inverts the confusion matrix of soft decisions, then clips to the simplex"
    reference = GUIDE
    batch = "inversion"

    @property
    def _decision(self) -> Decision:
        return "soft"

    def _solve(self, target: TargetCounts) -> PriorEstimate:
        return _from_inversion(self, target)


class BBSE(DecisionEstimator):
    """Black-box shift estimation of the ratio, w = J^-1 q (Lipton et al., 2018).

    The ratio is to the balance of the training labels: `source_label_priors` if given, else
    `source_priors`, else that of validation's own labels; then J is validation's joint confusion
    matrix as it is, and nothing need be known of the training set.

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
    summary = "inverts the joint confusion matrix of hard decisions for the ratio"
    reference = LIPTON
    raw_is = "ratio"
    gap_unit = ""

    def __init__(
        self, *, constrained: bool = False, tol: float = 1e-9, solver: str = "certified"
    ) -> None:
        self.constrained, self.tol, self.solver = constrained, tol, solver

    @property
    def wide(self) -> bool:
        """Whether no dense matrix of classes by classes is formed."""
        return not self.constrained

    @property
    def batch(self) -> Batch | None:  # type: ignore[override]
        """How many groups are solved at once; the constrained form takes one at a time."""
        return None if self.constrained else "inversion"

    @property
    def _decision(self) -> Decision:
        return "hard"

    def _sources(
        self, evidence: Evidence | None, source_priors: Vector | None, label_priors: Vector | None
    ) -> tuple[Vector, str]:
        return _label_sources(evidence, source_priors, label_priors)

    def _solve(self, target: TargetCounts) -> PriorEstimate:
        solve = _ratio_solver(self.constrained, self.solver, self.tol)
        return _from_ratio(self, target, solve, clip=self.solver != "paper")


class BBSES(DecisionEstimator):
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
    summary = "inverts the joint confusion matrix of soft decisions for the ratio"
    reference = LIPTON
    raw_is = "ratio"
    gap_unit = ""

    def __init__(
        self, *, constrained: bool = False, tol: float = 1e-9, solver: str = "certified"
    ) -> None:
        self.constrained, self.tol, self.solver = constrained, tol, solver

    @property
    def wide(self) -> bool:
        """Whether no dense matrix of classes by classes is formed."""
        return not self.constrained

    @property
    def batch(self) -> Batch | None:  # type: ignore[override]
        """How many groups are solved at once; the constrained form takes one at a time."""
        return None if self.constrained else "inversion"

    @property
    def _decision(self) -> Decision:
        return "soft"

    def _sources(
        self, evidence: Evidence | None, source_priors: Vector | None, label_priors: Vector | None
    ) -> tuple[Vector, str]:
        return _label_sources(evidence, source_priors, label_priors)

    def _solve(self, target: TargetCounts) -> PriorEstimate:
        solve = _ratio_solver(self.constrained, self.solver, self.tol)
        return _from_ratio(self, target, solve, clip=self.solver != "paper")


class RLLS(DecisionEstimator):
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
    summary = "fits the ratio by regularised least squares"
    reference = AZIZZADENESHELI
    raw_is = "ratio"
    gap_unit = ""

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
    def wide(self) -> bool:
        """Whether no dense matrix of classes by classes is formed: it always is."""
        return False

    @property
    def _decision(self) -> Decision:
        check_choice(self.decision, ("hard", "soft"), "decision")
        return self.decision

    def _sources(
        self, evidence: Evidence | None, source_priors: Vector | None, label_priors: Vector | None
    ) -> tuple[Vector, str]:
        return _label_sources(evidence, source_priors, label_priors)

    def _solve(self, target: TargetCounts) -> PriorEstimate:
        gamma, tol = check_fraction(self.gamma, "gamma"), check_positive(self.tol, "tol")
        penalty = check_positive(self.regularization, "regularization") * self._deviation_bound()

        def solve(J: Vector, q: Vector, _: Vector) -> tuple[Vector, Solution]:
            solution = regularised_ratio(J, q, penalty, tol=tol)
            return 1 + gamma * (solution.value - 1), solution

        return _from_ratio(self, target, solve)

    def _deviation_bound(self) -> float:
        """Return rho: how far J may be from the truth with probability 1 - delta."""
        delta = check_fraction(check_positive(self.delta, "delta"), "delta")
        log_term = 2 * np.log(2 * self.classes_.size / delta)
        n = self.confusion_.class_weights.sum()
        return float(3 * (log_term / (3 * n) + np.sqrt(log_term / n)))


def _from_inversion(estimator: DecisionEstimator, target: TargetCounts) -> PriorEstimate:
    """Solve C p = q; keep the solution as it is, and clip it into the simplex."""
    C = estimator.confusion_.conditional[:, target.seen]
    condition = _judge_condition(estimator, C)
    raw = solve_linear(C, target.counts.frequencies)
    _warn_of_clipping(estimator, raw, target)
    return estimator._result_of(
        target,
        target.complete(clip_to_simplex(raw)),
        Solution(raw, "direct"),
        raw=target.complete(raw),
        condition_number=condition,
    )


RatioSolver = Callable[[Vector, Vector, Vector], tuple[Vector, Solution]]
"""Takes J, q and the source priors; returns the ratio and the solution it comes from."""


def _ratio_solver(constrained: bool, solver: str, tol: float) -> RatioSolver:
    """Solve J w = q plainly, or with w kept a ratio of priors."""
    check_choice(solver, ("certified", "paper"), "solver")
    if constrained and solver == "paper":
        raise ValueError("the paper's BBSE is not constrained; choose one of the two.")
    tol = check_positive(tol, "tol")

    def plain(J: Vector, q: Vector, _: Vector) -> tuple[Vector, Solution]:
        raw = solve_linear(J, q)
        return raw, Solution(raw, "direct")

    def on_simplex(J: Vector, q: Vector, source: Vector) -> tuple[Vector, Solution]:
        C = J * prior_ratio(np.ones_like(source), source)
        solution = simplex_least_squares(C, q, tol=tol)
        return prior_ratio(solution.value, source), solution

    return on_simplex if constrained else plain


def _from_ratio(
    estimator: DecisionEstimator, target: TargetCounts, solve: RatioSolver, *, clip: bool = True
) -> PriorEstimate:
    """Solve for the ratio among the classes that were seen, and turn it into priors."""
    source = estimator.source_priors_[target.seen]
    source = source / source.sum()
    J = estimator.confusion_.conditional[:, target.seen] * source
    condition = _judge_condition(estimator, J)
    raw, solution = solve(J, target.counts.frequencies, source)
    estimator._warn_if_short(solution)
    priors = as_priors = target.complete(raw * source)
    if clip:
        _warn_of_clipping(estimator, raw, target)
        priors = target.complete(clip_to_simplex(raw * source))
    return estimator._result_of(
        target,
        priors,
        solution,
        raw=prior_ratio(as_priors, estimator.source_priors_),
        condition_number=condition,
    )


def _label_sources(
    evidence: Evidence | None, source_priors: Vector | None, label_priors: Vector | None
) -> tuple[Vector, str]:
    """Take the balance of labels as source priors: what a ratio from J is a ratio to."""
    if label_priors is not None:
        return label_priors, "source_label_priors"
    if source_priors is not None:
        return source_priors, "given"
    assert evidence is not None
    assert evidence.confusion is not None
    predicted, seen = evidence.predicted.frequencies, evidence.confusion.seen
    labels = evidence.confusion.class_frequencies * predicted[seen].sum()
    return np.where(seen, labels, predicted), "label frequencies of validation"


def _judge_condition(estimator: PriorEstimator, M: Vector) -> float:
    """Return the condition number, with a warning where the matrix tells classes not apart."""
    condition = condition_number(M)
    if np.isinf(condition):
        warn_user(
            f"{estimator.name}: the confusion matrix is singular, so some classes cannot be told "
            "apart by decisions, and a pseudo-inverse decides between them. SCM-L or EM may know "
            "more.",
            PriorShiftWarning,
        )
    return condition


def _warn_of_clipping(estimator: PriorEstimator, raw: Vector, target: TargetCounts) -> None:
    if said := say_clipped(raw, estimator.classes_[target.seen]):
        warn_user(
            f"{estimator.name} found {said}: confusion matrix and target decisions do not fit "
            "together. CM-L and SCM-L need no clipping.",
            PriorShiftWarning,
        )


def say_clipped(raw: Vector, classes: Labels) -> str:
    """Say which entries were negative; nothing if none was."""
    n_negative = np.count_nonzero(raw < -ROUNDING)
    if n_negative == 0:
        return ""
    many = "negative entry" if n_negative == 1 else "negative entries, the lowest"
    return (
        f"{n_negative} {many} {raw.min():.3g} for class {classes[np.argmin(raw)].item()!r}, "
        f"and set {'it' if n_negative == 1 else 'them'} to 0 (kept in `raw`)"
    )
