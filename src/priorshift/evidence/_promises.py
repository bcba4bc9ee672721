r"""What calibrating and adapting gain on the target, under each reading of the shift.

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

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, stdtrit

from priorshift._typing import Floats, Indices, Vector
from priorshift.adapt import Goal, log_savings
from priorshift.verdict import Gain, Promise

ADDED = 2.0
"""Rows without any difference that join those of each class."""


class Validation(NamedTuple):
    """Validation out of fold: predictions as they came, calibrated, and adapted; labels, groups."""

    y_proba: Floats
    calibrated: Floats
    adapted: Floats
    y: Indices
    groups: Indices | None = None


class Target(NamedTuple):
    """The target: predictions as they came, calibrated, and adapted in full."""

    y_proba: Floats
    calibrated: Floats
    adapted: Floats


class Shares(NamedTuple):
    """Class shares before, by the calibrated mean, by the estimate, and the estimate's variance."""

    before: Vector
    mean: Vector
    estimate: Vector
    covariance: Vector


def promise(
    goal: Goal, validation: Validation, target: Target, shares: Shares, *, adapts: bool
) -> Promise:
    """Return what calibrating, or adapting in full, gains under each reading.

    Parameters
    ----------
    goal : Goal
        What is gained.
    validation, target, shares
        See there.
    adapts : bool
        Whether to adapt in full, or to calibrate only.
    """
    y, K = validation.y, shares.before.size
    new_val, new = (
        (validation.adapted, target.adapted)
        if adapts
        else (validation.calibrated, target.calibrated)
    )
    rows, savings = differences(goal, validation.y_proba, new_val)
    saved = np.zeros(y.size)
    saved[rows] = savings[np.arange(rows.size), y[rows]]
    size = np.bincount(y, minlength=K) + ADDED
    d = np.bincount(y, saved, K) / size
    deviation = (saved - d[y]) / size[y]

    def at(priors: Vector, covariance: Vector | None = None) -> Gain:
        variance = _sum_of_squares(priors[y] * deviation, validation.groups)
        if covariance is not None:
            variance += float(d @ covariance @ d)
        return Gain(float(priors @ d), float(np.sqrt(variance)))

    expected = np.einsum("ij,ij->i", validation.calibrated[rows], savings)
    surprise = _sum_of_squares(saved[rows] - expected, validation.groups, rows)
    changed, savings = differences(goal, target.y_proba, new)
    gain = float(np.einsum("ij,ij->", target.calibrated[changed], savings)) / len(new)
    error = np.sqrt(surprise + ADDED * goal.scale**2) / (rows.size + ADDED)
    by_meaning = Gain(gain, float(error) * changed.size / len(new))
    covariance = None if goal.name == "balanced_accuracy" else shares.covariance
    priors = at(shares.estimate, covariance)
    share = changed.size / len(new)
    return Promise(at(shares.before), by_meaning, at(shares.mean), priors, share)


def differences(goal: Goal, before: Floats, after: Floats) -> tuple[Indices, Vector]:
    """Return the rows where new predictions make a difference, and what they save by true class."""
    if not goal.by_decisions:
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
