r"""What can be done to predictions, and what it gains under each reading of the shift.

Nothing, calibrating, adapting in full: `act` does all three, `promise` says what they gain.

Nobody knows whether each class looks as it did (prior shift) or each prediction means what it did
(covariate shift). Both say what an action gains, and so does a target in which nothing changed.
With :math:`s_i` what the action saves on validation row i, out of fold, and :math:`d_k` its mean
over class k with two rows of 0 added,

.. math:: G_\pi = \sum_k \pi_k d_k, \quad G_m = \sum_k m_k d_k, \quad G_p = \sum_k p_k d_k, \quad
          G_x = \frac1n \sum_j \sum_k q_k(x_j) s_k(x_j)

are the gains at unchanged shares, at the shares of the calibrated mean, at those of the prior-shift
estimate, and by the calibrated probabilities q of the target's rows. Rows of one group (a person, a
day, a site) err together: their deviations are added before they are squared.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, stdtrit

from priorshift._typing import Floats, Indices, Labels, Mask, Vector
from priorshift.adapt import Goal, log_savings, prior_ratio, reweight
from priorshift.border import as_generator
from priorshift.estimators import Auto, CalibratedMean, PriorEstimate, PriorEstimator
from priorshift.verdict import Action, Gain, Promise

ADDED = 2.0
"""Rows without any difference that join those of each class."""


class Acted(NamedTuple):
    """Predictions as they came, calibrated, and adapted in full."""

    y_proba: Floats
    calibrated: Floats
    adapted: Floats


def fit_mean(
    fitted: PriorEstimator | None, classes: Labels, y_proba: Any, y: Any, **given: Any
) -> CalibratedMean:
    """Return the calibrated mean, by the calibration that Auto has fitted, or by its own.

    With `groups`, folds go by group, and the calibration is fitted anew.
    """
    if isinstance(fitted, Auto) and given.get("groups") is None:
        return CalibratedMean.beside(fitted)
    return CalibratedMean(random_state=0).fit(y_proba, y, classes=classes, **given)


def ungated(estimate: PriorEstimate) -> PriorEstimate:
    """Return an estimate that adapts in full, whatever its method decided."""
    return estimate if estimate.strength > 0 else estimate.with_action("adapt")


def adapt_rows(estimate: PriorEstimate, y_proba: Floats) -> Floats:
    """Adapt clean rows as the estimate's own `adapt` does, without asking again what they are."""
    estimate._require_source()
    if estimate.calibrator is not None:
        y_proba = estimate.calibrator.apply(y_proba)
    target = estimate.priors if estimate.adapts_to is None else estimate.adapts_to
    ratio: Vector = prior_ratio(target, estimate.source_priors) ** estimate.strength
    return np.asarray(reweight(y_proba, ratio))


def act(
    estimate: PriorEstimate, mean: PriorEstimate, y_proba: Floats, calibrated: Floats | None = None
) -> Acted:
    """Return predictions as they came, calibrated, and adapted in full.

    They are calibrated as for the calibrated mean, unless that was done, as out of fold.
    """
    if calibrated is None:
        assert mean.calibrator is not None
        calibrated = mean.calibrator.apply(y_proba)
    if estimate.decision is None:
        adapted = adapt_rows(ungated(estimate), y_proba)
    else:  # Auto has calibrated alike
        adapted = reweight(calibrated, prior_ratio(estimate.priors, estimate.source_priors))
    return Acted(y_proba, calibrated, adapted)


def share_covariance(estimate: PriorEstimate) -> Vector:
    """Return the covariance of estimated shares, from their standard errors; 0 without any.

    Errors are taken to be as independent as those of shares that sum to 1 can be.
    """
    error = estimate.standard_error
    variance = np.zeros_like(estimate.priors) if error is None else error**2
    total = max(float(variance.sum()), 1e-300)
    covariance: Vector = np.diag(variance) - np.outer(variance, variance) / total
    return covariance * (total / max(float(np.trace(covariance)), 1e-300))


def promise(
    goal: Goal,
    validation: Acted,
    y: Indices,
    target: Acted,
    shares: Vector,
    covariance: Vector,
    groups: Indices | None = None,
    *,
    adapts: bool,
) -> Promise:
    """Return what calibrating, or adapting in full, gains under each reading.

    Parameters
    ----------
    goal : Goal
        What is gained.
    validation, target : Acted
        Validation is calibrated out of fold.
    y : ndarray of shape (n_val,)
        Labels as indices.
    shares : ndarray of shape (3, K)
        Class shares before, by the calibrated mean, and by the prior-shift estimate.
    covariance : ndarray of shape (K, K)
        Of the last.
    groups : ndarray of shape (n_val,), optional
        Rows of validation that err together.
    adapts : bool
        Whether to adapt in full, or to calibrate only.
    """
    K = shares.shape[1]
    at = 2 if adapts else 1
    new_val, new = validation[at], target[at]
    rows, savings = differences(goal, validation.y_proba, new_val)
    saved = np.zeros(y.size)
    saved[rows] = savings[np.arange(rows.size), y[rows]]
    size = np.bincount(y, minlength=K) + ADDED
    d = np.bincount(y, saved, K) / size
    deviation = (saved - d[y]) / size[y]

    variance = np.zeros(3)
    for at_shares, p in enumerate(shares):
        variance[at_shares] = _sum_of_squares(p[y] * deviation, groups)
    if goal.name != "balanced_accuracy":  # which weighs all classes alike
        variance[2] += max(float(d @ covariance @ d), 0.0)  # rounding may leave less than 0
    unchanged, by_mean, by_estimate = map(Gain, (shares @ d).tolist(), np.sqrt(variance).tolist())
    expected = np.einsum("ij,ij->i", validation.calibrated[rows], savings)
    surprise = _sum_of_squares(saved[rows] - expected, groups, rows)
    changed, savings = differences(goal, target.y_proba, new)
    gain = float(np.einsum("ij,ij->", target.calibrated[changed], savings)) / len(new)
    error = np.sqrt(surprise + ADDED * goal.cost_of_error() ** 2) / (rows.size + ADDED)
    by_meaning = Gain(gain, float(error) * changed.size / len(new))
    return Promise(unchanged, by_meaning, by_mean, by_estimate, changed.size / len(new))


def differences(goal: Goal, before: Floats, after: Floats) -> tuple[Indices, Vector]:
    """Return the rows where new predictions make a difference, and what they save by true class."""
    if goal.name == "log_loss":
        return np.arange(len(before)), log_savings(before, after)
    old, new = goal.decide(before), goal.decide(after)
    rows = np.flatnonzero(old != new)
    return rows, goal.savings(old[rows], new[rows], before.shape[1])


def _sum_of_squares(
    deviation: Vector, groups: Indices | None, rows: Indices | None = None
) -> float:
    """Return the variance of a sum of deviations: of rows, or of groups that err together.

    G groups tell their own spread with G - 1 degrees of freedom: one standard error is then
    Student's, not the normal one.
    """
    if groups is None:
        return float(deviation @ deviation)
    n_groups = int(groups.max()) + 1
    total = np.bincount(groups if rows is None else groups[rows], deviation, n_groups)
    if n_groups < 2:
        return np.inf
    wider = float(stdtrit(n_groups - 1, ndtr(1.0))) ** 2
    return float(total @ total) * n_groups / (n_groups - 1) * wider


class Strata(NamedTuple):
    """Which rows of a target are changed by an action, which have labels, and their classes."""

    changed: Mask
    labelled: Indices
    y: Indices

    def mean(
        self, values: Vector, added: float, *, elsewhere: bool = True
    ) -> tuple[Vector, Vector]:
        """Return the mean over all rows of values known on labelled ones, and its variance.

        Parameters
        ----------
        values : ndarray of shape (n_labelled,) or (n_labelled, k)
        added : float
            Size of the values of one success and one failure that are added to the variance.
        elsewhere : bool, default=True
            Whether values differ from 0 on rows that are not changed.
        """
        mean, variance = np.zeros(values.shape[1:]), np.zeros(values.shape[1:])
        for stratum in (self.changed, ~self.changed)[: 2 if elsewhere else 1]:
            some, size = values[stratum[self.labelled]], int(stratum.sum())
            m, part = len(some), size / stratum.size
            if m:
                centre = some.sum(axis=0) / (m + 2)
                spread = ((some**2).sum(axis=0) + 2 * added**2) / (m + 2) - centre**2
                mean = mean + part * some.mean(axis=0)
                variance = variance + part**2 * spread / m * (1 - m / size)
            elif size:  # nothing is known of these rows
                variance = variance + (part * added) ** 2
        return mean, variance


def rows_that_differ(goal: Goal, target: Acted) -> Mask:
    """Tell on which rows nothing, calibrating and adapting do not all decide alike.

    Where probabilities themselves are the goal, every row counts as changed.
    """
    if goal.name == "log_loss":
        return np.ones(len(target.y_proba), bool)
    raw, calibrated, adapted = map(goal.decide, target)
    return np.asarray((raw != calibrated) | (raw != adapted))


def draw_rows_to_label(
    goal: Goal, target: Acted, n: int, random_state: int | np.random.Generator | None
) -> Indices:
    """Draw n rows to label, sorted: three quarters among changed rows, as far as there are any.

    Rows of a stratum have the same chance. They are drawn at even distances from a random start,
    sorted by what adapting should save on them, so that no draw consists of lucky rows alone.
    """
    rng = as_generator(random_state)
    changed, q = rows_that_differ(goal, target), target.calibrated
    rows, savings = differences(goal, target.y_proba, target.adapted)
    expected = np.zeros(changed.size)
    expected[rows] = np.einsum("ij,ij->i", q[rows], savings)
    order = np.lexsort((q.max(axis=1), q.argmax(axis=1), expected))
    strata = order[changed[order]], order[~changed[order]]
    n = min(n, changed.size)
    # three quarters to rows where actions differ
    first = min(strata[0].size, max(round(0.75 * n), n - strata[1].size))
    drawn = [
        some[((rng.uniform() + np.arange(m)) * some.size / max(m, 1)).astype(np.intp)]
        for some, m in zip(strata, (first, n - first), strict=True)
    ]
    return np.sort(np.concatenate(drawn))


def measure_gains(goal: Goal, target: Acted, strata: Strata) -> dict[Action, Gain]:
    """Measure what calibrating and adapting gain, by labels of the target.

    Each action is judged by the rows that it changes, which are a random part of those drawn;
    elsewhere it gains exactly nothing.
    """
    y, before = strata.y, target.y_proba[strata.labelled]
    after: dict[Action, Floats] = {"calibrate": target.calibrated, "adapt": target.adapted}
    found: dict[Action, Gain] = {}
    for action, new in after.items():
        rows, own = new[strata.labelled], strata
        if goal.name != "log_loss":
            saved = goal.saved(y, goal.decide(before), goal.decide(rows))
            own = strata._replace(changed=goal.decide(new) != goal.decide(target.y_proba))
        else:
            saved = goal.scores(y, before) - goal.scores(y, rows)
        mean, variance = own.mean(saved, goal.cost_of_error(), elsewhere=False)
        found[action] = Gain(float(mean), float(np.sqrt(variance)))
    return found


def measure_shares(y_proba: Floats, strata: Strata) -> tuple[Vector, Vector]:
    """Return class shares by labels and all predictions (PPI), by stratum, and their variance."""
    surprise = np.eye(y_proba.shape[1])[strata.y] - y_proba[strata.labelled]
    mean, variance = strata.mean(surprise, 0.5)
    return np.asarray(y_proba.mean(axis=0, dtype=np.float64) + mean), np.asarray(variance)
