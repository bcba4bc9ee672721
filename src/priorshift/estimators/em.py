r"""EM, MAP, MAPLS and CalibratedEM: the likelihood of the posteriors, one row per target sample.

.. math:: \max_{p \in \Delta}\ \sum_i \log \sum_k \frac{f_k(x_i)}{p_{T,k}} p_k
    + \sum_k (\alpha_k - 1) \log p_k

EM has alpha = 1, MAP alpha = 3, and MAPLS lets the data choose it. CalibratedEM calibrates the
posteriors on validation first. The same problem with one row per decision is in
`confusion_likelihood`.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from priorshift._typing import Vector
from priorshift.border import NO_PRIOR, ArrayTable, Rows, Table, check_choice, check_count, some
from priorshift.calibration import FAMILIES, choose_calibration
from priorshift.estimators.base import PriorEstimator
from priorshift.estimators.bounds import Bounds
from priorshift.estimators.data import Evidence, posterior_problem
from priorshift.estimators.references import ALEXANDARI, SAERENS, SULC, YE
from priorshift.estimators.result import PriorEstimate
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning, warn_user
from priorshift.intervals import IntervalRequest, PriorInterval
from priorshift.solvers import PUBLISHED, Published

SOURCE_TRUST = 0.2
"""Trust at a divergence of 1/2 between source and uniform priors, in Ye's code."""

UNIFORM_SHARE, SOURCE_SHARE = 0.9, 0.1
"""How much the distance to the uniform and to the source priors count in the data's weight."""

LARGEST_COPY = 100_000_000
"""Rows times classes up to which calibrated outputs are kept: calibrating again takes longer."""


class EM(PriorEstimator):
    """Maximum likelihood from the posteriors (Saerens et al., 2002), solved to a certificate.

    Needs calibrated predictions and source priors; no validation labels.

    Parameters
    ----------
    tol : float, default=0.01
        Duality gap in nats to reach: at most 0.14 standard errors in any direction.
    max_iter : int, default=1000
        Most passes over the target.
    solver : {"certified", "paper", "released", "gradient"}, default="certified"
        "paper" is plain EM that stops when two iterates differ by < 0.001 in l2; "released" is the
        same, and adapts predictions with the iterate before, as the code of the paper's authors
        does (`PriorEstimate.adapts_to`); "gradient" is projected gradient ascent on the same
        likelihood, with the same stop.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.9, 0.1], [0.2, 0.8]])
    >>> shift = ps.EM().fit(source_priors=[0.5, 0.5]).estimate(y_proba)
    >>> shift.priors.round(3), shift.status
    (array([0.898, 0.102]), 'certified')
    """

    name = "em"
    summary = "maximises the likelihood of the predicted probabilities"
    reference = SAERENS
    outputs = "trusted"
    _takes_sparse = True
    _batch = "posteriors"
    _published: ClassVar[Mapping[str, Published]] = PUBLISHED["em"]

    def __init__(
        self, *, tol: float = 0.01, max_iter: int = 1000, solver: str = "certified"
    ) -> None:
        self.tol, self.max_iter, self.solver = tol, max_iter, solver

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        source = self.source_priors_
        problem = posterior_problem(y_proba, source, self._hyper_prior)
        solution = self._maximise(problem, source, self._published)
        return self._result(solution.value, solution, y_proba.shape[0])

    def _interval(
        self, y_proba: Rows, found: PriorEstimate, request: IntervalRequest
    ) -> PriorInterval:
        return Bounds(self, found, request).by_likelihood(y_proba)


class MAP(EM):
    """Maximum a posteriori from the posteriors (Sulc and Matas, 2019): EM with a hyper-prior.

    Parameters
    ----------
    alpha : float or array-like of shape (n_classes,), default=3.0
        Dirichlet hyper-prior; above 1 favours dense priors, below 1 sparse ones (then the result
        is only "stationary").
    tol : float, default=0.01
        Duality gap in nats to reach.
    max_iter : int, default=1000
        Most passes over the target.
    solver : {"certified", "paper", "released"}, default="certified"
        "paper" is projected gradient ascent with the best learning rate of a grid, stopped when
        two iterates differ by < 0.001 in l2. "released" has the learning rate of the code of the
        paper's authors, 5e-8 on the summed gradient, stops at 1e-5 and then adapts predictions
        with the iterate before (`PriorEstimate.adapts_to`).

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.9, 0.1], [0.2, 0.8]])
    >>> ps.MAP(alpha=3).fit(source_priors=[0.5, 0.5]).estimate(y_proba).priors.round(3)
    array([0.605, 0.395])
    """

    name = "map"
    summary = "maximises the posterior of the predicted probabilities under a hyper-prior"
    reference = SULC
    _published: ClassVar[Mapping[str, Published]] = PUBLISHED["map"]

    def __init__(
        self,
        *,
        alpha: float | ArrayLike = 3.0,
        tol: float = 0.01,
        max_iter: int = 1000,
        solver: str = "certified",
    ) -> None:
        self.alpha, self.tol, self.max_iter, self.solver = alpha, tol, max_iter, solver


class MAPLS(PriorEstimator):
    r"""EM pulled towards equal priors by a strength that the data choose (Ye et al., 2024).

    EM's step is mixed with the uniform priors :math:`u`,

    .. math:: p \leftarrow \lambda\, \overline{p(y \mid x)} + (1 - \lambda)\, u,

    which is maximum a posteriori with :math:`\alpha = 1 + M (1 - \lambda) / (\lambda K)` for M
    target samples, and solved as that, to a certificate. Here

    .. math:: \lambda = 0.9\, g(\mathrm{KL}(\hat p \| u)) + 0.1\, (1 - g(\mathrm{KL}(\hat p \|
        p_T))), \qquad g(d) = \frac{c d}{1 + c d}, \quad c = \frac{2s}{1 - s}

    with EM's estimate :math:`\hat p` and :math:`s = 1 / (1 + \mathrm{KL}(p_T \| u) / 2)`: the
    further the target seems from equal priors, and the nearer to the source, the more it is left
    to the data. A source of exactly equal priors has s = 1, where :math:`\lambda` is 0.9 for any
    shift at all. Equal priors are those of the classes that the source had.

    Parameters
    ----------
    tol : float, default=0.01
        Duality gap in nats to reach.
    max_iter : int, default=1000
        Most passes over the target.

    References
    ----------
    Ye, Tsuchida, Petersson, Barnes: Label Shift Estimation for Class-Imbalance Problem: A Bayesian
    Approach. WACV 2024.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.9, 0.1], [0.2, 0.8]])
    >>> shift = ps.MAPLS().fit(source_priors=[0.5, 0.5]).estimate(y_proba)
    >>> shift.priors.round(3), shift.status
    (array([0.783, 0.217]), 'certified')
    """

    name = "mapls"
    summary = (
        "maximises the likelihood of the predicted probabilities, pulled towards equal priors as "
        "far as the data suggest"
    )
    reference = YE
    outputs = "trusted"
    _takes_sparse = True

    def __init__(self, *, tol: float = 0.01, max_iter: int = 1000) -> None:
        self.tol, self.max_iter = tol, max_iter

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        source, n_target = self.source_priors_, y_proba.shape[0]
        uniform = (source > NO_PRIOR) / np.count_nonzero(source > NO_PRIOR)
        em = self._maximise(posterior_problem(y_proba, source), source)
        weight = data_weight(em.value, source, uniform)
        alpha = 1 + n_target * (1 - weight) / weight * uniform
        solution = self._maximise(posterior_problem(y_proba, source, alpha), source)
        solution = replace(solution, n_iter=solution.n_iter + em.n_iter)
        return self._result(solution.value, solution, n_target)


def data_weight(target: Vector, source: Vector, uniform: Vector) -> float:
    """Return lambda of EM's estimate and the source priors, as in the formula of `MAPLS`."""

    def divergence(p: Vector, q: Vector) -> float:
        there = q > NO_PRIOR  # mass where q has none is left out
        return max(float(rel_entr(p[there], q[there]).sum()), 0.0)

    trust = 1 / (1 + 2 * SOURCE_TRUST / (1 - SOURCE_TRUST) * divergence(source, uniform))
    steep = 2 * trust / (1 - trust) if trust < 1 else np.inf

    def far_from(other: Vector) -> float:
        """Return c d / (1 + c d), from 0 for d = 0 to 1; 1/2 where it is not determined."""
        d = divergence(target, other)
        if np.isinf(steep):
            return 1.0 if d > 0 else 0.5
        return steep * d / (1 + steep * d)

    return UNIFORM_SHARE * far_from(uniform) + SOURCE_SHARE * (1 - far_from(source))


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
    summary = "calibrates the probabilities, then maximises their likelihood"
    reference = ALEXANDARI
    decision = "soft"
    outputs = "calibrated"
    _keeps_rows = True

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

    def _learn(self, evidence: Evidence) -> dict[str, Any]:
        rows, label_priors = evidence.rows, evidence.best_labels
        assert rows is not None
        check_choice(self.calibrator, FAMILIES, "calibrator")

        def learn() -> tuple[dict[str, Any], str, Evidence]:
            ordered = rows.in_canonical_order()
            found, ridge, calibrated, trouble = choose_calibration(
                ordered.y_proba,
                ordered.y,
                ordered.weight,
                label_priors,
                calibrator=self.calibrator,
                ridge=self.ridge,
                n_folds=check_count(self.cv, "cv", least=2),
                random_state=self.random_state,
            )
            # calibrating must not create mass for classes that validation neither has nor predicts
            dead, values = evidence.predicted.counts <= 0, calibrated
            dead &= ~evidence.confusion.seen
            if dead.any():
                values = np.where(dead, 0, values).astype(values.dtype)
                values /= values.sum(axis=1, keepdims=True)
            given = replace(evidence, source_priors=None, source_label_priors=label_priors)
            learned = {"recalibration_": found, "ridge_": ridge}
            counted = given.count(replace(ordered, y_proba=values), "soft")
            return learned, trouble, replace(counted, rows=None)

        if rows.checked is None or isinstance(self.random_state, np.random.Generator):
            learned, trouble, calibrated = learn()
        else:  # once for all methods that calibrate the same predictions alike
            key = repr(("calibrated", self.calibrator, self.ridge, self.cv, self.random_state))
            known = (rows.y, rows.sample_weight, label_priors)
            learned, trouble, calibrated = rows.checked.once(rows.y_proba, key, known, learn)
        if trouble:
            message = f"the calibrator of {self.name} did not converge: {trouble}."
            warn_user(message, ConvergenceWarning)
        source, confusion = super()._learn(calibrated)["source_priors_"], calibrated.confusion
        # a classifier may never predict a class that validation has, or a steep map take its mean
        # to 0, which EM would divide by: it has at least its share of one more row
        share = np.full_like(source, 1 / source.size) if label_priors is None else label_priors
        least = np.where(confusion.seen, share / (calibrated.predicted.n_samples + 1), 0.0)
        if (source < least).any():
            source = np.maximum(source, least)
            source = source / source.sum()
        where = ", taken to be drawn as the training set was"
        if label_priors is not None:
            where = f" at source_{'' if evidence.source_label_priors is None else 'label_'}priors"
        where = f"mean calibrated prediction on validation{where}"
        sources = {"source_priors_": source, "source_priors_from_": where}
        return {**learned, **sources, "confusion_": confusion}

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
        """Bound the priors as EM does, the calibrator given; a bootstrap refits it."""
        if request.method == "bootstrap":
            fixed = copy(self)
            fixed.ridge = self.ridge_  # choosing it again for every resample would take too long
            return super(CalibratedEM, fixed)._interval(y_proba, found, request)
        rows, apply = self._labelled_rows(), self.recalibration_.apply
        em = EM(tol=self.tol, max_iter=self.max_iter).fit(
            apply(rows.y_proba),
            self.classes_[rows.y],
            source_label_priors=self._evidence.best_labels,
            classes=self.classes_,
            sample_weight=rows.sample_weight,
        )
        em.source_priors_ = self.source_priors_  # the same mean, but out of fold
        return em._interval(self._calibrated(y_proba), found, request)
