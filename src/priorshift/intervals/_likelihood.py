r"""Intervals of maximum likelihood from posteriors (EM): likelihood ratios, and source noise.

With :math:`u_i = a_i / (a_i \cdot p)`, :math:`a_i = f(x_i) / p_T`, the observed information is
:math:`H = \sum_i u_i u_i^T`, and because :math:`H p = M 1` on the face of classes above 0 the
covariance under :math:`\sum p = 1` has a closed form there:

.. math:: G = H^{-1} - p p^T / M.

Where a class is absent, at a share of 0, the likelihood falls from its maximum with a slope, and
the other classes make room for it. Every share along that path that is likely enough belongs to the
intervals of all classes: if one class has everything, this is the only way it can have less.

All of it **assumes that the outputs are calibrated** under the source priors: it is the noise of
EM, not the bias that miscalibrated outputs give it. On real networks that bias can be larger.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from priorshift._typing import Floats, Indices, Mask, Vector
from priorshift.border import (
    NO_PRIOR,
    map_rows,
    multiply,
    row_blocks,
    single_threaded_blas,
    take_rows,
)
from priorshift.intervals._interval import IntervalRequest, PriorInterval, wilson_bounds
from priorshift.solvers import Mixture

STEEP = 1e30
"""A row whose likelihood changes this fast bounds the class at once; float32 can hold it."""


class SourceNoise(NamedTuple):
    """Validation rows that the source priors were averaged from."""

    y_proba: Floats
    weight: Vector  # of each row in the mean: adds up to 1, less what classes without rows have
    y: Indices | None = None  # labels, if the mean is by class: only noise within classes counts

    def variance(self, source_priors: Vector, slope: Vector) -> Vector:
        """Return the variance of `slope @ log(source_priors)`, row by row."""
        n, K = self.y_proba.shape
        inverse = np.divide(1.0, source_priors, out=np.zeros(K), where=source_priors > NO_PRIOR)
        turned = (slope * inverse).T  # (K, m)
        m = turned.shape[1]
        labels = np.zeros(n, np.intp) if self.y is None else self.y
        sums, squares = np.zeros((2, labels.max() + 1, m))
        for rows in row_blocks(n, max(K, m)):
            effect = self.y_proba[rows].astype(np.float64, copy=False) @ turned
            weight, ends = self.weight[rows], np.arange(rows.stop - rows.start + 1)
            of_class = csr_array((weight, labels[rows], ends), shape=(weight.size, len(sums))).T
            sums += of_class @ effect
            squares += of_class.power(2) @ effect**2
        # sum_i w_i^2 (e_i - mean)^2 by class, with weights equal within a class in the cross term
        mass, square = np.bincount(labels, self.weight), np.bincount(labels, self.weight**2)
        # the noise of a class without rows is unknown
        n_effective = np.divide(mass**2, square, out=np.ones_like(mass), where=square > 0)[:, None]
        spread = squares - sums**2 / n_effective
        return np.maximum(spread * n_effective / np.maximum(n_effective - 1, 1), 0).sum(axis=0)


@single_threaded_blas()
def likelihood_interval(
    problem: Mixture,
    mle: Vector,
    priors: Vector,
    request: IntervalRequest,
    source_priors: Vector,
    source_noise: SourceNoise | None = None,
) -> PriorInterval:
    """Bound each prior by the likelihood along the path that the others would follow.

    A bound is where twice the log-likelihood has fallen by z², times what the noise of the source
    priors adds to the variance. So a class with no rows at all has an upper bound above 0. Bounds
    of a population's share are never inside Wilson's interval of as many labelled rows, which no
    classifier can beat. The standard error of a class that is absent, or all there is, is the
    distance of its bound over z.

    Parameters
    ----------
    problem : Mixture
        Rows of the target, unweighted and without hyper-prior.
    mle : ndarray of shape (K,)
        Its maximiser.
    priors : ndarray of shape (K,)
        The estimate that the interval must contain.
    request : IntervalRequest
    source_priors : ndarray of shape (K,)
    source_noise : SourceNoise, optional
        Where the source priors come from; without it, they are taken as exact.
    """
    M, K = problem.total, mle.size
    H = problem.hessian(mle, problem.A.shape[0])
    gradient = problem.evaluate(mle)[1]
    paths, variance, covariance, present = _paths(H, gradient, mle, M)
    extra = np.zeros(K)
    if source_noise is not None:
        p = mle[present]
        slope = np.zeros((p.size, K))
        slope[:, present] = np.diag(p) - np.outer(p, p) - M * covariance
        extra[present] = source_noise.variance(source_priors, slope)
    total, z = variance + extra, request.z(K)
    if request.estimand == "sample":  # labels are efficient: what is left is independent of them
        total = np.maximum(total - mle * (1 - mle) / M, 0)
    alone = present & (present.sum() == 1)  # one class takes everything: its face is a point
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # next to no variance
        drop = 0.5 * z**2 * np.where(alone, 1.0, total / variance)
    up, down = _reaches(problem, mle, paths, drop, variance)
    up[alone] = down[alone] = 0.0
    ends = mle[:, None] + paths[:, ~present] * up[~present]
    lower = np.minimum(mle - down, ends.min(axis=1, initial=1.0))
    upper = np.maximum(mle + up, ends.max(axis=1, initial=0.0))
    if request.estimand == "population":
        least = wilson_bounds(mle, M, z)
        lower, upper = np.minimum(lower, least[0]), np.maximum(upper, least[1])
    at_edge = np.maximum(upper - mle, mle - lower) / z
    # no share in [0, 1] has a larger standard error than a half
    error = np.minimum(np.where(~present | alone, at_edge, np.sqrt(total)), 0.5)
    return PriorInterval.around(priors, lower, upper, error, "likelihood ratio")


def _reaches(
    problem: Mixture, p: Vector, paths: Vector, drop: Vector, variance: Vector
) -> tuple[Vector, Vector]:
    """Return how far up and down its path each class gets until the likelihood has fallen."""
    A = take_rows(problem.A)  # a bound takes dozens of passes
    n, up, down = A.shape[0], np.empty_like(p), np.empty_like(p)
    mixed = multiply(A, problem.scale * p)
    for part in row_blocks(p.size, n, 2**25):
        with np.errstate(over="ignore"):
            turned = problem.scale[:, None] * paths[:, part]
        turned = turned.clip(-STEEP, STEEP).astype(A.dtype)
        parts = map_rows(
            lambda rows, turned=turned: A[rows] @ turned,  # type: ignore[misc]
            n,
            work=n * p.size * turned.shape[1] / 16,
        )
        # how fast the likelihood of each row changes, (n, classes)
        effects = np.concatenate(parts).astype(np.float64, copy=False)
        effects /= mixed[:, None]
        scale = np.sqrt(2 * drop[part] * variance[part])
        up[part] = _reach(effects, 1.0, drop[part], scale, 1 - p[part])
        down[part] = _reach(effects, -1.0, drop[part], scale, p[part])
    return up, down


def _paths(H: Vector, gradient: Vector, p: Vector, M: float) -> tuple[Vector, Vector, Vector, Mask]:
    """Return by class the direction in which the likelihood falls least, and its variance.

    Column k of the directions has 1 at k and sums to 0. Also returned: the covariance on the face
    of the classes present, and which these are.
    """
    K = p.size
    present = p * M > 1e-3  # expected rows
    root = np.sqrt(p[present])
    scaled = H[np.ix_(present, present)] * root[:, None] * root
    # classes that cannot be told apart get a large variance, not an infinite one
    scaled[np.diag_indices_from(scaled)] += 1e-10 * M
    inverse = np.linalg.inv(scaled) * root[:, None] * root
    covariance = inverse - np.outer(p[present], p[present]) / M
    # posteriors tell no more than labels: below their noise there is only rounding
    own = np.maximum(np.diagonal(covariance), p[present] * (1 - p[present]) / M)
    paths, variance = np.eye(K), np.empty(K)
    if own.size > 1:  # else one class has everything, and there is no other to make room for
        paths[np.ix_(present, present)] = covariance / own
    variance[present] = np.maximum(own, np.finfo(np.float64).tiny)
    absent = ~present
    pull = 1 - gradient[absent] / M
    paths[np.ix_(present, absent)] = -inverse @ H[np.ix_(present, absent)] - np.outer(
        p[present], pull
    )
    curvature = np.einsum("jk,jk->k", paths[:, absent], H @ paths[:, absent])
    variance[absent] = 1 / np.maximum(curvature, 1.0)  # no class is bounded worse than by [0, 1]
    return paths, variance, covariance, present


def _reach(effects: Vector, sign: float, drop: Vector, start: Vector, most: Vector) -> Vector:
    """Solve sum_i log(1 + sign t e_i) = -drop for 0 <= t <= most, one t per column.

    The sum is concave in t, so Newton's steps from beyond the solution stay beyond it; a step that
    leaves the bracket is replaced by its middle.
    """
    fall = -sign * effects
    steepest = fall.max(axis=0)
    # the likelihood is 0 where 1 - t e_i is; stay inside
    edge = np.where(steepest > 0, (1 - 1e-9) / np.maximum(steepest, 1e-300), np.inf)
    high = np.minimum(np.maximum(most, 0), edge)
    free = np.log(1 - high * fall).sum(axis=0) + drop >= 0  # it never falls as far
    low = np.where(free, high, 0.0)
    t = np.where(free, high, np.minimum(start, 0.5 * high))
    for _ in range(30):
        inner = 1 - t * fall
        value = np.log(inner).sum(axis=0) + drop
        slope = -(fall / inner).sum(axis=0)
        low, high = np.where(value >= 0, t, low), np.where(value < 0, t, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = t - value / slope
        new = np.where((step >= low) & (step <= high) & (slope < 0), step, 0.5 * (low + high))
        if (np.abs(new - t) <= 1e-4 * np.maximum(t, 1e-12)).all():
            return new
        t = new
    return t
