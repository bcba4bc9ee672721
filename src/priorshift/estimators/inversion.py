r"""NA, CM, SCM, BBSE and BBSE-S: no likelihood, but the equations q = C p themselves.

CM and SCM solve :math:`C p = q` for the priors, BBSE and BBSE-S :math:`J w = q` for the ratio
:math:`w = p / p_T`, with :math:`J = C\,\mathrm{diag}(p_T)`. Where estimates of C and q do not fit
together, the plain solution has negative entries; it is kept as `raw`, and clipped. NA is the
baseline that solves nothing.
"""

from typing import Any

import numpy as np

from priorshift._typing import Vector
from priorshift.adapt import prior_ratio
from priorshift.border import Rows, check_choice, check_number
from priorshift.counts import Decision, DecisionCounts
from priorshift.estimators.base import Batch, PriorEstimator
from priorshift.estimators.data import Evidence, Target
from priorshift.estimators.references import GUIDE, LIPTON, SAERENS
from priorshift.estimators.result import PriorEstimate
from priorshift.exceptions import PriorShiftWarning, argument, warn_user
from priorshift.intervals import PriorInterval
from priorshift.solvers import (
    Solution,
    Solutions,
    clip_to_simplex,
    simplex_least_squares,
    solve_linear,
)

NO_FIT = (
    ": confusion matrix and target decisions do not fit together. CM-L and SCM-L need no clipping"
)
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
    outputs = "ignored"
    _takes_sparse = True

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        solution = Solution(self.source_priors_, "direct")
        return self._result(solution.value, solution, y_proba.shape[0])

    def _estimate_decisions(self, counts: DecisionCounts) -> PriorEstimate:
        if not self._evidence.decisions_only:
            return super()._estimate_decisions(counts)
        solution = Solution(self.source_priors_, "direct")
        return self._result(solution.value, solution, counts.n_samples)

    def _interval(self, *_: Any) -> PriorInterval:
        raise ValueError(
            "NoAdaptation estimates nothing, so there is no interval; leave out "
            f"{argument('confidence_level')}."
        )


class CM(PriorEstimator):
    """Invert the confusion matrix of hard decisions: p = C^-1 q, clipped (McLachlan, 1992).

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> right_8_of_10 = np.eye(2)[np.repeat([0, 1, 0, 1], [8, 2, 2, 8])]
    >>> cm = ps.CM().fit(right_8_of_10, np.repeat([0, 1], 10))
    >>> cm.estimate(np.array([[1.0, 0.0], [0.0, 1.0]])).priors.round(3)
    array([0.5, 0.5])
    """

    name = "cm"
    _wide = False  # a dense matrix of classes by classes is inverted
    decision: Decision | None = "hard"
    summary = "inverts the confusion matrix of hard decisions, then clips to the simplex"
    reference = SAERENS
    _batch = "counts"

    def _estimate_counts(self, target: Target) -> PriorEstimate:
        C = self._columns[:, target.seen]
        condition = self._condition(C, target.seen)
        regular = np.isfinite(condition["condition_number"])
        raw = solve_linear(C, target.counts.frequencies, regular=regular)
        warn_of_clipping(self, raw, target, NO_FIT)
        priors, condition["raw"] = target.complete(clip_to_simplex(raw)), target.complete(raw)
        return self._result(priors, Solution(raw, "direct"), target, **condition)

    def _priors_of_groups(self, counts: Vector) -> Solutions:
        return _inverted(self, self._columns, counts)


class SCM(CM):
    """Invert the confusion matrix of soft decisions: p = C^-1 q, clipped.

    Examples
    --------
    >>> import priorshift as ps
    >>> scm = ps.SCM().fit([[0.8, 0.2], [0.2, 0.8]], [0, 1])
    >>> shift = scm.estimate([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]])
    >>> shift.priors.round(3)
    array([0.667, 0.333])

    Noise of the decisions is magnified by at most the condition number of the matrix:

    >>> round(shift.condition_number, 2)
    1.67
    """

    name = "scm"
    decision = "soft"
    summary = "inverts the confusion matrix of soft decisions, then clips to the simplex"
    reference = GUIDE


class BBSE(PriorEstimator):
    """Black-box shift estimation of the ratio, w = J^-1 q (Lipton et al., 2018).

    The ratio is to the balance of the training labels: `source_label_priors` if given, else
    `source_priors`, else that of validation's own labels; then J is validation's joint confusion
    matrix as it is, and you need to know nothing about the training set.

    Parameters
    ----------
    constrained : bool, default=False
        Solve min ||Jw - q|| with w >= 0 and p_T . w = 1 instead of clipping.
    tol : float, default=1e-9
        Duality gap of the constrained problem to reach.
    solver : {"certified", "paper", "released"}, default="certified"
        "paper" keeps negative ratios as they are: adapted "probabilities" may then be negative, and
        so may the sums that they are divided by. "released" does so too, with the ratio to
        `source_priors`, the mean prediction, as in the code of the paper's authors.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> right_8_of_10 = np.eye(2)[np.repeat([0, 1, 0, 1], [8, 2, 2, 8])]
    >>> bbse = ps.BBSE().fit(right_8_of_10, np.repeat([0, 1], 10))
    >>> bbse.estimate(np.eye(2)[[0, 0, 1]]).ratio.round(3)
    array([1.556, 0.444])
    """

    name = "bbse"
    _wide = False
    decision: Decision | None = "hard"
    summary = "inverts the joint confusion matrix of hard decisions for the ratio"
    reference = LIPTON
    raw_is = "ratio"

    def __init__(
        self, *, constrained: bool = False, tol: float = 1e-9, solver: str = "certified"
    ) -> None:
        self.constrained, self.tol, self.solver = constrained, tol, solver

    @property
    def _batch(self) -> Batch | None:  # type: ignore[override]
        """How groups are solved together; the constrained form solves one at a time."""
        return None if self.constrained else "counts"

    def _learn(self, evidence: Evidence) -> dict[str, Any]:
        if self.solver == "released":
            return super()._learn(evidence)
        source, origin = evidence.label_balance()
        return {"source_priors_": source, "source_priors_from_": origin}

    def _estimate_counts(self, target: Target) -> PriorEstimate:
        """Solve for the ratio among the classes that were seen, and turn it into priors."""
        source = target.among_seen(self.source_priors_)
        J = self._columns[:, target.seen] * source
        condition = self._condition(J, target.seen)
        regular = bool(np.isfinite(condition["condition_number"]))
        raw, solution = self._solve_ratio(J, target.counts.frequencies, source, regular)
        if solution.status == "not_converged":
            self._warn_of_gap(solution)
        as_priors = target.complete(raw * source)
        if self.solver == "certified":
            warn_of_clipping(self, raw, target, NO_FIT)
            priors = target.complete(clip_to_simplex(raw * source))
        else:  # a pseudo-inverse leaves a sum other than 1; adapted rows do not depend on it
            priors = as_priors / as_priors.sum()
        raw = prior_ratio(as_priors, self.source_priors_)
        return self._result(priors, solution, target, raw=raw, **condition)

    def _solve_ratio(
        self, J: Vector, q: Vector, source: Vector, regular: bool
    ) -> tuple[Vector, Solution]:
        """Solve J w = q plainly, or with w kept a ratio of priors."""
        check_choice(self.solver, ("certified", "paper", "released"), "solver")
        tol = check_number(self.tol, "tol")
        if not self.constrained:
            raw = solve_linear(J, q, regular=regular)
            return raw, Solution(raw, "direct")
        if self.solver != "certified":
            raise ValueError("the paper's BBSE is not constrained; choose one of the two.")
        C = J * prior_ratio(np.ones_like(source), source)
        solution = simplex_least_squares(C, q, tol=tol)
        return prior_ratio(solution.value, source), solution

    def _priors_of_groups(self, counts: Vector) -> Solutions:
        return _inverted(self, self._columns * self.source_priors_, counts, self.source_priors_)


class BBSES(BBSE):
    """Black-box shift estimation from soft decisions: BBSE-S, w = J^-1 q.

    Parameters
    ----------
    constrained, tol, solver
        As in `BBSE`.

    Examples
    --------
    >>> import priorshift as ps
    >>> bbse = ps.BBSES(constrained=True).fit([[0.8, 0.2], [0.2, 0.8]], [0, 1])
    >>> shift = bbse.estimate([[0.9, 0.1]])  # more extreme than any mixture of the two classes
    >>> shift.ratio.round(3), shift.status
    (array([2., 0.]), 'certified')
    """

    name = "bbse-s"
    decision = "soft"
    summary = "inverts the joint confusion matrix of soft decisions for the ratio"


def _inverted(
    estimator: PriorEstimator, M: Vector, counts: Vector, times: Vector | float = 1.0
) -> Solutions:
    """Solve one linear system with as many right-hand sides as groups; warn once of clipping."""
    raw = solve_linear(M, (counts / counts.sum(axis=1, keepdims=True)).T).T * times
    negative = (raw < -ROUNDING).any(axis=1)
    if negative.any():
        warn_user(
            f"{estimator.name} found negative entries, the lowest {raw.min():.3g}, in "
            f"{np.count_nonzero(negative)} of {raw.shape[0]} groups, and set them to 0. CM-L "
            "and SCM-L need no clipping.",
            PriorShiftWarning,
        )
    return Solutions.direct(clip_to_simplex(raw))


def warn_of_clipping(estimator: PriorEstimator, raw: Vector, target: Target, why: str = "") -> None:
    """Warn of entries that were negative, if any was."""
    n_negative = np.count_nonzero(raw < -ROUNDING)
    if n_negative:
        many = "negative entry" if n_negative == 1 else "negative entries, the lowest"
        lowest = estimator.classes_[target.seen][np.argmin(raw)].item()
        warn_user(
            f"{estimator.name} found {n_negative} {many} {raw.min():.3g} for class {lowest!r}, and "
            f"set {'it' if n_negative == 1 else 'them'} to 0 (kept in `raw`){why}.",
            PriorShiftWarning,
        )
