r"""CM-L, SCM-L, CM-M, SCM-M and relatives: the likelihood of decisions under a confusion matrix.

.. math:: \max_{p \in \Delta}\ \sum_i n_i \log (C p)_i + \sum_k (\alpha_k - 1) \log p_k

============  =====================================  =====
method        confusion matrix C, decisions n        alpha
============  =====================================  =====
CM-L          hard                                   1
SCM-L         soft (summed posteriors)               1
CM-M          hard                                   3
SCM-M         soft                                   3
shrunk SCM-L  soft, shrunk towards the classifier's  1
              own account
joint         hard, itself unknown                   1
============  =====================================  =====

It is the problem of EM (see `em`) with a row per decision instead of one per sample.

A shrunk confusion matrix has columns

.. math:: C_k = \frac{n_k \hat C_k + s\, C^m_k}{n_k + s}, \qquad
    C^m_k = \frac{\sum_x \omega f_k(x)\, d(x)}{\sum_x \omega f_k(x)}

with decisions d and weights :math:`\omega` that give validation the class balance of the source. If
the classifier were calibrated, :math:`C^m` would be the confusion matrix itself, from all rows
instead of those of one class. The strength s, in samples, is the one that makes the decisions of
held-out rows most likely.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import add
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Mask, Vector
from priorshift.border import check_choice, check_count, check_number
from priorshift.calibration import deal_folds
from priorshift.counts import Confusion, Decision, model_columns, shrunk_columns
from priorshift.estimators.base import PriorEstimator
from priorshift.estimators.data import Evidence, Target
from priorshift.estimators.references import GUIDE
from priorshift.estimators.result import PriorEstimate
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning, warn_user
from priorshift.intervals import pooled_columns
from priorshift.solvers import (
    NO_LIKELIHOOD,
    PUBLISHED,
    Mixture,
    Mixtures,
    Published,
    Solutions,
    is_singular,
    maximise,
    maximise_jointly,
)

STRENGTHS = np.array([0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0])
"""What `shrinkage="cv"` chooses from, in samples per class."""


EMPTY = 1e-12
"""Probability that an impossible decision counts as when likelihoods are compared."""


class CML(PriorEstimator):
    """Maximum likelihood of the hard decisions: the paper's CM-L.

    Parameters
    ----------
    tol : float, default=1e-6
        Duality gap in nats to reach.
    max_iter : int, default=1000
        Most steps.
    solver : {"certified", "paper", "released"}, default="certified"
        "paper" is 1000 steps of projected gradient ascent with the best learning rate of a grid;
        "released" has the learning rate of the code of the paper's authors, 1e-4, halved every 50
        steps, and ends near the source priors.

    Examples
    --------
    The paper's example, where inverting the confusion matrix would give (4/3, -1/3):

    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_val = np.repeat([0, 1], 10)
    >>> decisions = np.repeat([0, 1, 0, 1], [8, 2, 2, 8])
    >>> ps.CML().fit(np.eye(2)[decisions], y_val).estimate(np.array([[1.0, 0.0]])).priors
    array([1., 0.])
    """

    name = "cm-l"
    decision: Decision | None = "hard"
    summary = "maximises the likelihood of hard decisions under the confusion matrix"
    reference = GUIDE
    _batch = "counts"
    _published: ClassVar[Mapping[str, Published]] = PUBLISHED["cm-l"]

    def __init__(
        self, *, tol: float = 1e-6, max_iter: int = 1000, solver: str = "certified"
    ) -> None:
        self.tol, self.max_iter, self.solver = tol, max_iter, solver

    def _estimate_counts(self, target: Target) -> PriorEstimate:
        """Solve with one row per decision: the confusion matrix in use, weighted by the counts."""
        seen, counts = target.seen, target.counts.counts
        C = self._columns[:, seen]
        problem = Mixture(C, weights=counts, alpha=self._hyper_prior[seen])
        _report_impossible(problem, float(counts.sum()))
        start = target.among_seen(self.source_priors_)
        solution = self._maximise(problem, start, self._published)
        condition = self._condition(C, seen, singular=is_singular(C))
        return self._result(target.complete(solution.value), solution, target, **condition)

    def _priors_of_groups(self, counts: Vector) -> Solutions:
        C = self._columns
        possible = C.sum(axis=1) > NO_LIKELIHOOD
        weights = np.ascontiguousarray(np.maximum(counts[:, possible], 0))
        return maximise(
            Mixtures(C[possible], weights, self._hyper_prior - 1),
            start=self.source_priors_,
            tol=check_number(self.tol, "tol"),
            max_iter=check_count(self.max_iter, "max_iter"),
        )

    def _informative(self, counts: Vector) -> Mask:
        possible = self._columns.sum(axis=1) > NO_LIKELIHOOD  # decisions that validation has
        return np.asarray(counts @ possible > 0)


class SCML(CML):
    """Maximum likelihood of the soft decisions: the paper's SCM-L.

    Parameters
    ----------
    tol, max_iter, solver
        As in `CML`; the released learning rate is 1e-3. Summed posteriors are not counts: the gap
        is that of the optimisation, and says nothing about sampling noise.

    Examples
    --------
    >>> import priorshift as ps
    >>> scm_l = ps.SCML().fit([[0.8, 0.2], [0.2, 0.8]], [0, 1])
    >>> scm_l.estimate([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]]).priors.round(3)
    array([0.667, 0.333])
    """

    name = "scm-l"
    decision = "soft"
    summary = "maximises the likelihood of soft decisions under the confusion matrix"
    _published: ClassVar[Mapping[str, Published]] = PUBLISHED["scm-l"]


class CMM(CML):
    """Maximum a posteriori of the hard decisions: the paper's CM-M.

    Parameters
    ----------
    alpha : float or array-like of shape (n_classes,), default=3.0
        Dirichlet hyper-prior.
    tol, max_iter, solver
        As in `CML`; the released learning rate is 1e-3 throughout. Where it would lead to a prior
        of 0, at which the released code fails, the estimate is the iterate before.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> perfect = np.eye(2)
    >>> ps.CMM(alpha=3).fit(perfect, [0, 1]).estimate(perfect[[0, 0, 0, 1]]).priors.round(3)
    array([0.625, 0.375])
    """

    name = "cm-m"
    summary = (
        "maximises the posterior of hard decisions under the confusion matrix and a hyper-prior"
    )
    _published: ClassVar[Mapping[str, Published]] = PUBLISHED["cm-m"]

    def __init__(
        self,
        *,
        alpha: float | ArrayLike = 3.0,
        tol: float = 1e-6,
        max_iter: int = 1000,
        solver: str = "certified",
    ) -> None:
        self.alpha, self.tol, self.max_iter, self.solver = alpha, tol, max_iter, solver


class SCMM(CMM):
    """Maximum a posteriori of the soft decisions: the paper's SCM-M.

    Parameters
    ----------
    alpha, tol, max_iter, solver
        As in `CMM`.

    Examples
    --------
    >>> import priorshift as ps
    >>> perfect = ps.SCMM(alpha=3).fit([[1, 0], [0, 1]], [0, 1])
    >>> perfect.estimate([[1, 0], [1, 0], [1, 0], [0, 1]]).priors.round(3)
    array([0.625, 0.375])
    """

    name = "scm-m"
    decision = "soft"
    summary = (
        "maximises the posterior of soft decisions under the confusion matrix and a hyper-prior"
    )


class ShrunkSCML(CML):
    r"""SCM-L with a confusion matrix shrunk towards the classifier's own account of it.

    .. math:: C_k = \frac{n_k \hat C_k + s\, C^m_k}{n_k + s}, \qquad
        C^m_k = \frac{\sum_x \omega f_k(x) f(x)}{\sum_x \omega f_k(x)}

    where validation has few samples :math:`n_k` of a class, its column is mostly noise; the model's
    own column is free of it and, to the extent that the classifier is calibrated, right. Weights
    :math:`\omega` give validation the class balance of the source.

    Parameters
    ----------
    shrinkage : float or "cv", default="cv"
        s, in samples per class; 0 is SCM-L. "cv" chooses the one that makes the decisions of
        held-out validation rows most likely.
    tol, max_iter
        As in `CML`.

    Attributes
    ----------
    confusion_ : Confusion
        As counted.
    model_confusion_ : ndarray of shape (n_classes, n_classes)
        The model's columns.
    shrinkage_ : float
        The strength in use.

    Examples
    --------
    >>> import priorshift as ps
    >>> y_proba_val, y_val = [[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.2, 0.8]], [0, 0, 1, 1]
    >>> y_proba = [[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]]
    >>> ps.ShrunkSCML(shrinkage=2).fit(y_proba_val, y_val).estimate(y_proba).priors.round(3)
    array([0.704, 0.296])
    """

    name = "scm-l-shrunk"
    decision = "soft"
    summary = (
        "maximises the likelihood of soft decisions under a confusion matrix shrunk towards the "
        "classifier’s own account of it"
    )
    _keeps_rows = True
    solver = "certified"

    def __init__(
        self,
        *,
        shrinkage: float | Literal["cv"] = "cv",
        tol: float = 1e-6,
        max_iter: int = 1000,
    ) -> None:
        self.shrinkage, self.tol, self.max_iter = shrinkage, tol, max_iter

    def _learn(self, evidence: Evidence) -> dict[str, Any]:
        return super()._learn(evidence) | _learn_shrinkage(evidence, self.shrinkage, "soft")

    @property
    def _columns(self) -> Vector:
        return shrunk_columns(self.confusion_, self.model_confusion_, self.shrinkage_)


class JointLikelihood(PriorEstimator):
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
        s, in samples per class, as in `ShrunkSCML`.
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
    >>> right_8_of_10 = np.eye(2)[np.repeat([0, 1, 0, 1], [8, 2, 2, 8])]
    >>> joint = ps.JointLikelihood(shrinkage=0).fit(right_8_of_10, np.repeat([0, 1], 10))
    >>> shift = joint.estimate(np.eye(2)[[0, 0, 0, 1]])
    >>> shift.priors.round(3), shift.status
    (array([0.917, 0.083]), 'stationary')
    """

    name = "joint"
    decision = "hard"
    _keeps_rows = True
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

    def _learn(self, evidence: Evidence) -> dict[str, Any]:
        return super()._learn(evidence) | _learn_shrinkage(evidence, self.shrinkage, "hard")

    def _estimate_counts(self, target: Target) -> PriorEstimate:
        tol, max_iter = check_number(self.tol, "tol"), check_count(self.max_iter, "max_iter")
        alpha = self._hyper_prior[target.seen]
        if (alpha < 1).any():
            raise ValueError(f"alpha must be at least 1 for {self.name}; got {self.alpha!r}.")
        confusion = self.confusion_
        counts = confusion.in_samples() if self._evidence.decisions_only else confusion.counts
        counted = counts + self.shrinkage_ * self.model_confusion_
        V, n = counted[:, target.seen], target.counts.counts
        _report_impossible(Mixture(V, weights=n), float(n.sum()))
        start = target.among_seen(self.source_priors_)
        _, solution = maximise_jointly(V, n, alpha, tol=tol, max_iter=max_iter, start=start)
        if solution.status == "not_converged":
            warn_user(
                f"{self.name} has not come to rest after {solution.n_iter} steps; raise max_iter "
                "or tol.",
                ConvergenceWarning,
            )
        condition = self._condition(V, target.seen, singular=is_singular(V))
        return self._result(target.complete(solution.value), solution, target, **condition)


def _report_impossible(problem: Mixture, total: float) -> None:
    """Warn of target decisions that validation never saw from any class, or refuse if all are."""
    if problem.A.shape[0] == 0:
        raise ValueError(
            "none of the target's decisions ever occurs on validation, so nothing can be learnt "
            "from them; use a larger validation set, or EM, which needs no confusion matrix."
        )
    if problem.impossible > 1e-9 * total:
        warn_user(
            f"{problem.impossible / total:.2%} of the target's decisions are for classes that "
            "validation was never taken for; they are left out of the likelihood.",
            PriorShiftWarning,
        )


def _learn_shrinkage(
    evidence: Evidence, shrinkage: float | Literal["cv"], decision: Decision
) -> dict[str, Any]:
    """Return the strength in use, and the confusion matrix as the classifier itself sees it.

    The strength is the one that makes held-out decisions most likely. Decisions have no
    probabilities to say how the classifier sees a class; there all classes together do.
    """
    strength: float | None = None
    if isinstance(shrinkage, str):
        check_choice(shrinkage, ("cv",), "shrinkage")
    else:
        strength = check_number(shrinkage, "shrinkage") if shrinkage else 0.0
    if evidence.rows is None:
        confusion = evidence.confusion
        model = pooled_columns(confusion.in_samples())
        strength = likeliest_strength(confusion, model) if strength is None else strength
    else:
        rows = evidence.rows.in_canonical_order()
        weight = rows.balanced_weight(evidence.best_labels)
        model = model_columns(rows.y_proba, weight, decision)
        if strength is None:
            folds, likelihoods = deal_folds(rows.y, 5, True, 0), np.zeros(STRENGTHS.size)
            names = np.unique(folds)
            of_fold = [rows.take(np.flatnonzero(folds == one)).confusion(decision) for one in names]
            for at, fold in enumerate(names):
                if names.size == 1:  # nothing would be kept: the least strength
                    break
                held, kept = of_fold[at], reduce(add, [*of_fold[:at], *of_fold[at + 1 :]])
                without = model_columns(rows.y_proba, weight * (folds != fold), decision)
                # a class of which nothing is kept says nothing about the strength
                of_kept = held.counts * kept.seen
                for i, tried in enumerate(STRENGTHS):
                    C = shrunk_columns(kept, without, tried)
                    likelihoods[i] += float((of_kept * np.log(np.maximum(C, EMPTY))).sum())
            strength = float(STRENGTHS[np.argmax(likelihoods)])
    return {"shrinkage_": strength, "model_confusion_": model}


def likeliest_strength(confusion: Confusion, model: Vector) -> float:
    r"""Return the strength that makes each decision most likely given all others.

    Leaving out one decision needs no folds, counts V are enough:

    .. math:: \sum_{dk} V_{dk} \log \frac{V_{dk} - 1 + s\, C^m_{dk}}{n_k - 1 + s}

    Examples
    --------
    >>> import numpy as np
    >>> V = np.array([[9.0, 5.0], [1.0, 5.0]])
    >>> likeliest_strength(Confusion(V, V.sum(axis=0), "hard", 20), np.full((2, 2), 0.5))
    5.0
    """
    V = confusion.in_samples()
    n = V.sum(axis=0)
    likelihoods = []
    for strength in STRENGTHS:
        left = np.maximum(V - 1, 0) + strength * model
        C = left / np.maximum(n - 1 + strength, EMPTY)
        likelihoods.append(float((V * np.log(np.maximum(C, EMPTY))).sum()))
    return float(STRENGTHS[np.argmax(likelihoods)])
