r"""Prediction sets that hold the true class as often as promised, also under prior shift.

Split conformal prediction scores how badly each labelled validation sample fits its own class,
:math:`s_i = s(x_i, y_i)`, and puts into a set every class that fits no worse than a quantile of
these scores. Under prior shift validation has the wrong mixture of classes, so each of its samples
gets the weight of its class (Podkopaev & Ramdas, 2021), and so does the new sample, whose class is
unknown: for each candidate y it is placed at infinity with the weight of y,

.. math:: \{ y : s(x, y) \le Q_y \}, \quad
    Q_y = \mathrm{Quantile}_{1 - \alpha} \Bigl( \frac{\sum_i w_{y_i} \delta_{s_i}
    + w_y \delta_\infty}{\sum_i w_{y_i} + w_y} \Bigr), \quad w_y = \frac{p_E(y)}{n_y / n}.

The weight compares the target with *validation*, whose samples are weighted, not with the priors
the classifier was trained under: those matter only if probabilities are adapted. With the observed
share :math:`n_y / n` each class has exactly its target prior's share of the total weight, whether
validation was drawn at random or balanced by design. The theorem assumes the true ratio of priors;
with observed shares and estimated priors, the guarantee holds up to their error. Pass an estimate
with standard errors, and the sets account for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from priorshift._typing import Floats, Mask, Vector
from priorshift.adapt import RandomState
from priorshift.border import (
    Predictions,
    as_generator,
    check_choice,
    check_level,
    check_priors,
    read_labelled,
    read_proba,
    row_blocks,
    some,
)
from priorshift.estimators import PriorEstimate
from priorshift.exceptions import PriorShiftWarning, warn_user

Score = Literal["lac", "aps", "randomised-aps"]
SCORES = ("lac", "aps", "randomised-aps")

ROUNDING = 1e-9
"""How far a sum of weights may be below a level by rounding without losing a rank."""


def _scores(values: Floats, score: Score, parts: Vector) -> Iterator[tuple[slice, Vector]]:
    """Yield how badly every class fits, a block of rows at a time.

    For "aps" it is the probability of all likelier classes, plus a part of that of equally likely
    ones: classes of equal probability have equal scores, and their order does not matter.
    """
    for rows in row_blocks(*values.shape):
        block, part = values[rows].astype(np.float64), parts[rows, None]
        scores = -block  # not 1 - p, which would tie small probabilities
        if score != "lac":
            order = np.argsort(scores, axis=1, kind="stable")
            ordered = np.take_along_axis(block, order, axis=1)
            sums = np.minimum(np.cumsum(ordered, axis=1), 1.0)
            sums[:, -1] = 1.0  # despite rounding: ties at 1 must be ties
            last = np.ones(block.shape, dtype=np.bool_)
            last[:, :-1] = ordered[:, :-1] > ordered[:, 1:]
            upto = np.minimum.accumulate(np.where(last, sums, np.inf)[:, ::-1], axis=1)[:, ::-1]
            above = np.maximum.accumulate(np.where(last, sums, 0.0), axis=1)[:, :-1]
            above = np.pad(above, ((0, 0), (1, 0)))
            mixed = np.where(part == 1, upto, above + part * (upto - above))
            np.put_along_axis(scores, order, mixed, 1)
        yield rows, scores


class ConformalSets(BaseEstimator):
    """Predict sets of classes that hold the true one with a chosen probability.

    With the true target priors, a set misses the class of a new target sample with a probability of
    at most 1 - `confidence_level`, however good or bad the classifier is; with estimated priors,
    up to their error. A better classifier gives smaller sets. A set may be empty: no class fits.

    Parameters
    ----------
    score : {"lac", "aps", "randomised-aps"}, default="lac"
        How badly a class fits. "lac": the smaller its probability, the worse; gives the smallest
        sets on average. "aps": the probability of all classes that are at least as likely; gives
        larger sets to harder samples. "randomised-aps" counts a random part of the last class, so
        that coverage is not above the requested level.
    per_class : bool, default=False
        Whether to guarantee coverage for every single class (Mondrian conformal prediction). This
        holds under any prior shift and needs no target priors, but gives larger sets, and a class
        with fewer than about 1 / (1 - `confidence_level`) validation samples is in every set.
    prior_noise : bool, default=True
        Whether to account for the noise of an `estimate` with standard errors, by using the mean of
        the priors they allow: a class whose prior is estimated as 0 by chance is then left out of
        neither the sets nor the count. ``estimate(..., confidence_level=0.95)`` gives them.
    random_state : None, int or numpy.random.Generator, optional
        For "randomised-aps".

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    target_priors_ : ndarray of shape (n_classes,) or None
        The target priors in use; see `prior_noise`.
    weights_ : ndarray of shape (n_classes,) or None
        Weight per class, target prior / share of validation; 0 for a class that validation lacks,
        None if `per_class`.

    References
    ----------
    Podkopaev & Ramdas, "Distribution-free uncertainty quantification for classification under label
    shift", UAI 2021. Sadinle, Lei & Wasserman, 2019 (LAC). Romano, Sesia & Candès, 2020 (APS).

    Examples
    --------
    >>> import priorshift as ps
    >>> from priorshift.conformal import ConformalSets
    >>> data = ps.datasets.load_fashion_lt()
    >>> em = ps.EM().fit(source_priors=data.source_priors, classes=data.classes)
    >>> shift = em.estimate(data.y_proba_target)
    >>> conformal = ConformalSets().fit(data.y_proba_val, data.y_val, estimate=shift)
    >>> sets = conformal.predict_set(data.y_proba_target, confidence_level=0.9)
    >>> conformal.class_names(sets[:2])
    [['Ankle boot'], ['Coat', 'Shirt']]
    """

    def __init__(
        self,
        score: Score = "lac",
        *,
        per_class: bool = False,
        prior_noise: bool = True,
        random_state: RandomState = None,
    ) -> None:
        self.score, self.per_class, self.prior_noise = score, per_class, prior_noise
        self.random_state = random_state

    def fit(
        self,
        y_proba_val: ArrayLike,
        y_val: ArrayLike,
        *,
        target_priors: Any = None,
        estimate: PriorEstimate | None = None,
        source_priors: Any = None,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Score a labelled validation set that the classifier was not trained on.

        Parameters
        ----------
        y_proba_val : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities on validation.
        y_val : array-like of shape (n_samples,)
            Validation labels, of any class balance.
        target_priors : array-like of shape (n_classes,) or mapping, optional
            Class priors of the target.
        estimate : PriorEstimate, optional
            Estimate of the target priors, instead of `target_priors`. It also adapts probabilities
            before they are scored, which makes sets smaller. To score them unadapted, pass
            ``target_priors=estimate.priors``.
        source_priors : array-like of shape (n_classes,) or mapping, optional
            Priors the classifier was trained under. If given, probabilities are adapted to
            `target_priors` before they are scored.
        classes : array-like of shape (n_classes,), optional
            Class names in the order of the columns.
        """
        check_choice(self.score, SCORES, "score")
        if estimate is not None:
            if target_priors is not None or source_priors is not None:
                raise ValueError(
                    "estimate holds target_priors and source_priors already; pass it or them."
                )
            if not isinstance(estimate, PriorEstimate):
                raise ValueError(
                    f"estimate must be a PriorEstimate, as estimate() of an estimator returns; got "
                    f"{type(estimate).__name__}. Pass known priors as target_priors=."
                )
            known = estimate.classes
            if classes is not None and list(np.asarray(classes)) != list(known):
                raise ValueError(
                    f"classes must be those of estimate, in its order: {some(known.tolist())}; "
                    "leave classes out."
                )
            classes = known
        elif target_priors is None and (source_priors is not None or not self.per_class):
            raise ValueError(
                "pass the priors of the target, target_priors= or estimate=; only "
                "ConformalSets(per_class=True), without source_priors, needs none."
            )
        names, predictions, y = read_labelled(
            y_proba_val, y_val, classes, name="y_proba_val", label_name="y_val"
        )
        values = predictions.values
        if estimate is not None:
            if self.prior_noise and estimate.standard_error is not None:
                mean = mean_above_zero(estimate.priors, estimate.standard_error)
                estimate = replace(estimate, priors=mean)
            target_priors = estimate.priors
        elif target_priors is not None:
            target_priors = check_priors(target_priors, names, "target_priors")
        if source_priors is not None:
            source_priors = check_priors(source_priors, names, "source_priors")
            estimate = PriorEstimate(
                "known", names, target_priors, source_priors, "given", "direct"
            )
        if estimate is not None:
            values = estimate.adapt(Predictions.from_checked(values))
        parts, scores = self._random_parts(y.size, stream=0), np.empty(y.size)
        for rows, block in _scores(values, self.score, parts):
            scores[rows] = np.take_along_axis(block, y[rows, None], axis=1)[:, 0]
        counts, weights, before = np.bincount(y, minlength=names.size), None, np.zeros(names.size)
        if self.per_class:  # every class is a group of its own, of total weight 1
            seen, share = (counts > 0).astype(np.float64), np.ones(names.size)
            order, before = np.lexsort((scores, y)), np.cumsum(seen) - seen
        else:  # one group, in which each class has its target prior as total weight
            of_class = counts / y.size
            weights = np.divide(target_priors, of_class, out=0.0 * of_class, where=of_class > 0)
            if not weights.any():
                raise ValueError(
                    "target_priors are 0 for every class of y_val, so none of its samples can "
                    "stand for the target; validate on classes that the target has."
                )
            # a class that validation lacks is in every set and needs no share of the weight
            share = target_priors / target_priors[counts > 0].sum()
            order = np.argsort(scores, kind="stable")
        one = np.zeros(names.size)  # what a new sample would weigh; infinite without validation
        with np.errstate(divide="ignore"):
            np.divide(share, counts, out=one, where=share > 0)
        # set all attributes at once, so that a failed fit changes nothing
        self.weights_, self._scores = weights, scores[order]
        self._steps, self._before = np.cumsum(one[y][order]), before
        self._one = one
        self.classes_, self.n_features_in_, self.target_priors_ = names, names.size, target_priors
        self._estimate = estimate
        return self

    def thresholds(self, confidence_level: float = 0.9) -> Vector:
        """Return the worst score each class may have to be in a set; infinity allows any score.

        The score is minus the probability ("lac"), or the sum of probabilities ("aps").
        """
        check_is_fitted(self)
        # the quantile per class, with a new sample of the class added at infinity
        reach = check_level(confidence_level, "confidence_level") * (1 + self._one)
        within = reach <= 1 + ROUNDING
        at = np.searchsorted(self._steps, self._before + np.where(within, reach, 0.0) - ROUNDING)
        return np.where(within, self._scores[np.minimum(at, self._scores.size - 1)], np.inf)

    def predict_set(self, y_proba: ArrayLike, confidence_level: float = 0.9) -> Mask:
        """Predict the sets.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities of target samples, from the same classifier.
        confidence_level : float in (0, 1), default=0.9
            Probability that a set holds the true class.

        Returns
        -------
        ndarray of bool, shape (n_samples, n_classes)
            Which classes each set holds, in the order of `classes_`.
        """
        thresholds = self.thresholds(confidence_level)
        values = read_proba(y_proba, self.classes_).values
        if self._estimate is not None:
            values = self._estimate.adapt(Predictions.from_checked(values))
        always = np.isposinf(thresholds)
        if always.any():
            warn_user(
                f"validation has too few samples of class {some(self.classes_[always].tolist())} "
                f"for a confidence level of {confidence_level:g}, so every set includes it; "
                "collect more of them, or lower the level.",
                PriorShiftWarning,
            )
        parts = self._random_parts(values.shape[0], stream=1)
        sets = np.empty(values.shape, dtype=np.bool_)
        for rows, block in _scores(values, self.score, parts):
            np.less_equal(block, thresholds, out=sets[rows])
        return sets

    def class_names(self, sets: ArrayLike) -> list[list[Any]]:
        """Turn rows of `predict_set` into lists of class names."""
        check_is_fitted(self)
        held = np.asarray(sets)
        if held.dtype != np.bool_ or held.ndim != 2 or held.shape[1] != self.classes_.size:
            raise ValueError(
                f"sets must be what predict_set returns, bool of shape (n_samples, "
                f"{self.classes_.size}); got {held.dtype} of shape {held.shape}."
            )
        names = self.classes_[np.nonzero(held)[1]]
        ends = np.cumsum(held.sum(axis=1))
        return [part.tolist() for part in np.split(names, ends)[:-1]]

    def _random_parts(self, n: int, stream: int) -> Vector:
        """Draw one part per row, or 1; validation and target must not share their draws."""
        seed: Any = self.random_state
        if self.score != "randomised-aps":
            return np.ones(n)
        generator = as_generator(seed)
        if seed is not None and not isinstance(seed, np.random.Generator):
            generator = np.random.default_rng([seed, stream])
        return generator.random(n)


def mean_above_zero(priors: Vector, standard_error: Vector) -> Vector:
    r"""Return the mean of the priors that standard errors allow, normalised.

    An estimate that is 0 by chance is the worst case: its class is scored as impossible, so sets
    miss it, and it has no weight, so nobody counts the misses. The mean of all priors that the
    noise allows has no such zeros. Per class it is that of a normal distribution above 0,

    .. math:: \bar p_k \propto \hat p_k + s_k\, \frac{\varphi(\hat p_k / s_k)}{\Phi(\hat p_k / s_k)}

    with the standard error :math:`s_k`: a prior of many standard errors stays as it is, and so does
    one that is known.

    Examples
    --------
    >>> import numpy as np
    >>> mean_above_zero(np.array([0.0, 0.1, 0.9]), np.array([0.05, 0.01, 0.05])).round(3)
    array([0.038, 0.096, 0.865])
    """
    noisy = standard_error > 0
    apart = np.divide(priors, standard_error, out=np.zeros_like(priors), where=noisy)
    mean = priors + np.where(noisy, standard_error * norm.pdf(apart) / norm.cdf(apart), 0.0)
    return np.asarray(mean / mean.sum())
