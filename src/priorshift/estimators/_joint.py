"""Joint likelihood: the confusion matrix is an unknown too, where validation is small."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from priorshift._validation import check_alpha, check_count, check_positive
from priorshift.estimators._evidence import TargetCounts
from priorshift.estimators._likelihood import _report_impossible
from priorshift.estimators._references import GUIDE
from priorshift.estimators._result import PriorEstimate
from priorshift.estimators._shrunk import KeepsShrunkConfusion
from priorshift.exceptions import ConvergenceWarning, warn_user
from priorshift.solvers import Mixture
from priorshift.solvers._joint import maximise_jointly
from priorshift.statistics import Decision


class JointLikelihood(KeepsShrunkConfusion):
    r"""Maximum likelihood of priors and confusion matrix together, from hard decisions.

    Validation counts V estimate the confusion matrix with noise, and the target's decisions n say
    something of it too:

    .. math:: \max_{C, p}\ \sum_d n_d \log (Cp)_d + \sum_{dk} (V_{dk} + s\, C^m_{dk}) \log C_{dk}
        + \sum_k (\alpha_k - 1) \log p_k

    The pseudo-counts :math:`s\, C^m` are what the classifier itself says of its decisions (see
    `ShrunkSCML`); without them a confusion that validation never saw stays impossible. The problem
    is not concave: the result is "stationary", the point that EM reaches from validation's matrix.
    With ever more validation samples it is CM-L, and so it is, whatever their number, where s = 0
    and the inverted confusion matrix gives no negative priors.

    Parameters
    ----------
    shrinkage : float or "cv", default="cv"
        s, in samples a class. "cv" takes the one under which the decisions of held-out validation
        rows are likeliest.
    alpha : float or array-like of shape (n_classes,), default=1.0
        Dirichlet hyper-prior of the priors.
    tol : float, default=1e-5
        How far the priors may be, in L1, from where the steps lead.
    max_iter : int, default=2000
        Most steps.

    Attributes
    ----------
    confusion_ : Confusion
        Of validation alone.
    model_confusion_ : ndarray of shape (n_classes, n_classes)
        :math:`C^m`.
    shrinkage_ : float
        The strength in use.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_val = np.repeat([0, 1], 10)
    >>> decisions = np.repeat([0, 1, 0, 1], [8, 2, 2, 8])
    >>> joint = ps.JointLikelihood(shrinkage=0).fit(np.eye(2)[decisions], y_val)
    >>> shift = joint.estimate(np.eye(2)[[0, 0, 0, 1]])
    >>> shift.priors.round(3), shift.status
    (array([0.917, 0.083]), 'stationary')
    """

    name = "joint"
    summary = "maximises the likelihood of hard decisions over the priors and the confusion matrix"
    reference = GUIDE

    def __init__(
        self,
        *,
        shrinkage: float | Literal["cv"] = "cv",
        alpha: float | ArrayLike = 1.0,
        tol: float = 1e-5,
        max_iter: int = 2000,
    ) -> None:
        self.shrinkage, self.alpha, self.tol, self.max_iter = shrinkage, alpha, tol, max_iter

    @property
    def _decision(self) -> Decision:
        return "hard"

    def _solve(self, target: TargetCounts) -> PriorEstimate:
        tol, max_iter = check_positive(self.tol, "tol"), check_count(self.max_iter, "max_iter")
        alpha = check_alpha(self.alpha, self.classes_.size)[target.seen]
        if (alpha < 1).any():
            raise ValueError(f"alpha must be at least 1 for {self.name}; got {self.alpha!r}.")
        counted = self.confusion_.counts + self.shrinkage_ * self.model_confusion_
        V, n = counted[:, target.seen], target.counts.counts
        _report_impossible(Mixture.of(V, weights=n), float(n.sum()))
        source = np.maximum(self.source_priors_[target.seen], np.finfo(np.float64).tiny)
        _, solution = maximise_jointly(
            V, n, alpha, tol=tol, max_iter=max_iter, start=source / source.sum()
        )
        if solution.status == "not_converged":
            warn_user(
                f"{self.name} has not come to rest after {solution.n_iter} steps; raise max_iter "
                "or tol.",
                ConvergenceWarning,
            )
        return self._result_of(target, target.complete(solution.value), solution)
