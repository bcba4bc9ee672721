r"""The one convex problem: how much of each class a mixture holds.

.. math:: \max_{p \in \Delta}\ f(p) = \sum_i w_i \log(a_i \cdot p) + \sum_k (\alpha_k - 1) \log p_k

with the gradient :math:`g = A^T (w / Ap) + (\alpha - 1) / p` and :math:`T = \sum_i w_i + \sum_k
(\alpha_k - 1)`. Because :math:`p \cdot g = T` on the simplex and f is concave for
:math:`\alpha \ge 1`, every p carries its own certificate:

.. math:: f(p^*) - f(p) \le g \cdot p^* - g \cdot p \le \max_k g_k - T.

The problem does not change when a row of A is rescaled (f shifts by a constant), when rows of
weight 0 are dropped, or when equal rows are merged and their weights added.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from priorshift._typing import Floats, Indices, Vector
from priorshift.border import (
    BLOCK_BYTES,
    Block,
    Rows,
    SparseTable,
    Table,
    map_reduce,
    times,
)

HESSIAN_PARTS = 2
"""Parts that a Hessian is summed in: each holds a K x K matrix, so few save memory."""

USUAL_BLOCK_BYTES = 2**18
LARGEST_BLOCK_BYTES = 2**23
"""Blocks of this size cost two threads as little as one pass of BLAS over everything (measured);
smaller ones cost more than they save in copies."""

CACHED_BLOCK_BYTES = 2**21
"""The largest block where each is converted: it stays in a cache (.06 s instead of .12, measured
for 1.5 million float32 rows of 20 classes)."""

WIDE = 1e6
"""Ratio of scales above which a Hessian's rows are scaled before they are multiplied."""

GOLDEN_RATIO = (5**0.5 - 1) / 2
"""Multiples of it, less their whole part, fill the unit interval evenly."""

GEMM_SPEED_UP = 16
"""A product of matrices takes far less time per multiplication than one with a vector."""

NO_LIKELIHOOD = 1e-200
"""A row up to this, 0 in float32, is 0: priors times less would underflow."""

LEAST_OF_FLOAT32 = 1e-20
"""Divided by a prior times less, 1 may leave float32."""


RIDGES = (0.0, 1e-14, 1e-12, 1e-9, 1e-6, 1e-3, 1.0, 1e6)
"""Tried in turn, relative to the diagonal, where rounding makes Newton's matrix indefinite."""


Mix = Callable[[Block, slice], tuple[Vector | None, Vector]]
"""Takes a block and its rows, returns their weights, None for 1, and their likelihoods."""


class Mixture:
    """The data of the one problem that all likelihoods here are.

    It is `f(p) = sum_i w_i log(a_i . (scale * p)) + (alpha - 1) . log p`, where `scale` multiplies
    the columns, so that dividing posteriors by source priors needs no copy. Rows of weight 0 and
    rows that are numerically 0 play no part in f: an array is copied without them, and every pass
    over a table skips them.

    Parameters
    ----------
    A : ndarray or Table of shape (n, K)
        Rows a_i, at least 0, float32 or float64.
    scale : ndarray of shape (K,), optional
        Factor of each column.
    weights : ndarray of shape (n,), optional
        Weight of each row; None is 1 for all.
    alpha : float or ndarray of shape (K,), default=1
        Of the Dirichlet hyper-prior.

    Attributes
    ----------
    excess : ndarray of shape (K,)
        alpha - 1.
    total : float
        T, the weight of all rows and of the hyper-prior.
    impossible : float
        Weight of the rows left out because no p explains them: all 0, yet observed.
    mass : float
        n, the weight of all rows, also of these.
    """

    def __init__(
        self,
        A: Rows,
        *,
        scale: Vector | None = None,
        weights: Vector | None = None,
        alpha: float | Vector = 1.0,
    ) -> None:
        n, K = A.shape
        scale = np.ones(K) if scale is None else scale
        rows: Any = A
        table, lacking, impossible = isinstance(A, Table), not scale.all(), 0.0
        if weights is None and (lacking or not table):
            impossible = float(map_reduce(partial(_impossible, scale), A))
        if weights is not None or (not table and (lacking or impossible)):
            u = times(rows, scale)
            possible = u > A.dtype.type(NO_LIKELIHOOD)
            keep = possible if weights is None else possible & (weights > 0)
            # what is left of a row without some classes may be too small to divide by
            if lacking and u[keep].min(initial=1.0) < LEAST_OF_FLOAT32:
                rows = rows.astype(np.float64, copy=False)
            if weights is not None:
                impossible = float(weights[~possible].sum())
            if not keep.all():
                rows, weights = rows[keep], None if weights is None else weights[keep]
        mass = n - impossible if weights is None else weights.sum()
        self.A: Rows = rows
        self.scale, self.weights, self.impossible = scale, weights, impossible
        self.excess = np.broadcast_to(np.asarray(alpha, np.float64) - 1, (K,))
        self.total = float(mass + self.excess.sum())
        self.mass = float(mass) + impossible
        self.table = table
        self.penalised = bool(self.excess.any())
        n, self.n_classes = rows.shape
        # arrays and sparse rows are taken by their numbers, others in a pass
        self.fetched = table and not isinstance(rows, SparseTable)
        # hides whole rows of a table
        self.hidden = scale if table and weights is None and impossible else None
        # scales may differ so much that squares of rows without them leave float32
        self.wide = bool(scale.max() > WIDE * scale.min())
        # a copy of a block and vectors of its rows take a quarter of the user's data at most, where
        # these are more than a few hundred kilobytes; a square matrix is our own
        size = 8 * rows.size
        share = max(size // 32, min(size // 12, USUAL_BLOCK_BYTES))
        few = size <= 2 * USUAL_BLOCK_BYTES or n <= 2 * K
        largest = CACHED_BLOCK_BYTES if getattr(rows, "dear", False) else LARGEST_BLOCK_BYTES
        self.block_bytes = self.pass_bytes = largest if few else min(largest, share)
        if not table:  # a pass without conversion makes no copies, only vectors
            self.pass_bytes = max(self.block_bytes, min(BLOCK_BYTES, K * rows.nbytes // 12))

    def mix(self, p: Vector) -> Mix:
        """Return a function of blocks of rows: their likelihoods at p, one column per p."""
        scaled = self.scale * p if p.ndim == 1 else self.scale[:, None] * p
        return partial(_mix, scaled, self.weights, self.hidden)

    def evaluate(self, p: Vector, *, exact: bool = True) -> tuple[float, Vector]:
        """Return the likelihood part of f and of its gradient, in one pass over blocks of rows.

        `exact=False` multiplies blocks in the data's own precision (sums over blocks stay in
        float64): good enough for steps, not for certificates. Where p leaves a row without any
        probability, the likelihood is -inf and the gradient is not finite.
        """
        bytes_ = self.block_bytes if exact and self.A.dtype != np.float64 else self.pass_bytes
        A: Any = self.A
        if not self.table and 8 * A.size <= bytes_:  # one block: no cost of cutting and adding
            block = A.astype(np.float64, copy=False) if exact else A
            likelihood, slope = _evaluate(self.mix(p), block, slice(0, len(A)))
        else:
            kernel = partial(_evaluate, self.mix(p))
            likelihood, slope = map_reduce(kernel, A, block_bytes=bytes_, exact=exact)
        return float(likelihood), self.scale * slope

    def at(
        self, p: Vector, *, exact: bool = True, known: tuple[float, Vector] | None = None
    ) -> "Point":
        """Return f, its gradient and its certificate at p; `known` is what `evaluate` returns."""
        exact = exact or self.A.dtype == np.float64
        objective, slope = known or self.evaluate(p, exact=exact)
        gradient = slope
        if self.penalised:
            used = self.excess != 0
            with np.errstate(divide="ignore", over="ignore"):  # of a p that is next to 0
                objective += float(self.excess[used] @ np.log(p[used]))
                gradient = slope + np.divide(self.excess, p, out=np.zeros_like(p), where=used)
        gap = float(gradient.max() * p.sum()) - self.total
        return Point(p, objective, slope, gradient, np.inf if gap != gap else gap, exact)

    def curved_at(self, p: Vector) -> tuple["Point", Vector]:
        """Return `at(p)` and `hessian(p)` of one pass, where a pass costs more than its work."""
        scale = self.scale if self.wide else None
        kernel = partial(_evaluate_and_gram, self.mix(p), scale)
        found = map_reduce(kernel, self.A, block_bytes=self.block_bytes, n_parts=HESSIAN_PARTS)
        likelihood, slope, H = found
        if not self.wide:
            H *= self.scale[:, None]
            H *= self.scale
        return self.at(p, known=(float(likelihood), self.scale * slope)), H

    def thinned(self, stride: int) -> "Mixture":
        """Return the problem of every `stride`-th row."""
        A: Any = self.A
        every = partial(_every, stride)
        rows = np.concatenate(map_reduce(every, A)) if self.fetched else A[::stride]
        weights = None if self.weights is None else self.weights[::stride]
        share = rows.shape[0] / self.A.shape[0]
        return Mixture(rows, scale=self.scale, weights=weights, alpha=1 + share * self.excess)

    def hessian(self, p: Vector, n_rows: int | None = None, slope: Vector | None = None) -> Vector:
        r"""Return :math:`A^T \mathrm{diag}(w/(Ap)^2) A`, from all rows or about `n_rows` of them.

        The sample contains row i with a probability proportional to :math:`w_i \sum_k a_{ik} / (a_i
        \cdot p)`, a bound on its leverage, and weights it by the inverse: rows of rare classes are
        kept where a plain sample would lose them. It is systematic, so the same every time. These
        bounds add up to the sum of `slope`, the likelihood's gradient at p.
        """
        A, mix, at = self._sample(p, n_rows, slope)
        K, scale = self.n_classes, self.scale if self.wide else None
        kernel: Any = partial(_gram, mix, scale)
        bytes_ = max(self.block_bytes, min(LARGEST_BLOCK_BYTES, 24 * K**2))
        if at is not None:  # blocks of row numbers, of which each stands for K numbers
            kernel = partial(_taken, A, kernel)
            A, bytes_ = at[:, None], self.block_bytes // K
        work = A.shape[0] * K**2 / GEMM_SPEED_UP
        H = map_reduce(kernel, A, work=work, block_bytes=bytes_, n_parts=HESSIAN_PARTS)
        if not self.wide:
            H *= self.scale[:, None]
            H *= self.scale
        return H

    def hessian_rows(self, p: Vector, n_rows: int, slope: Vector) -> Block:
        r"""Return rows B whose :math:`B^T B` is the Hessian, or the estimate from a sample."""
        A, mix, at = self._sample(p, n_rows, slope)
        rows: Block = A[:] if at is None else A[at]
        w, u = mix(rows, slice(None))
        root = 1.0 if w is None else np.sqrt(w)
        return rows * self.scale.astype(rows.dtype) * (root / u)[:, None].astype(rows.dtype)

    def _sample(self, p: Vector, n_rows: int | None, slope: Vector | None) -> tuple[Any, Mix, Any]:
        """Return all rows or about `n_rows`, `mix` of them, and which to take of those returned."""
        if n_rows is None or n_rows >= self.A.shape[0]:
            return self.A, self.mix(p), None
        slope = self.evaluate(p, exact=False)[1] if slope is None else slope
        step = float(slope.sum()) / n_rows
        kernel = partial(_sample, self.scale * p, self.scale, self.weights, step, self.fetched)
        found, parts = map_reduce(kernel, self.A, block_bytes=self.block_bytes)
        chosen, stands_for = np.concatenate(found), np.concatenate(parts)
        if not self.fetched and self.weights is not None:
            stands_for = stands_for * self.weights[chosen]
        mix = partial(_mix, self.scale * p, stands_for, None)  # no row of a sample is hidden
        if isinstance(self.A, SparseTable):  # taken at once: small products of them are slow
            return self.A[chosen], mix, None
        return (chosen, mix, None) if self.fetched else (self.A, mix, chosen)


class Mixtures:
    """The data of G problems with K unknowns each.

    Rows a_i, (m, K) for all groups or (G, m, K), have weights (G, m); no row with a weight is all
    0. `excess` is alpha - 1 of the hyper-prior, at least 0, (G, K), and `total` every group's T.
    """

    def __init__(
        self, A: Vector, weights: Vector, excess: Vector | float = 0.0, outer: Vector | None = None
    ) -> None:
        K = A.shape[-1]
        # all products of a shared matrix's columns, if they are few: the Hessians of all groups are
        # one matrix product then
        if outer is None and A.ndim == 2 and K <= 64:
            outer = (A[:, :, None] * A[:, None, :]).reshape(A.shape[0], K * K)
        self.A, self.weights, self.outer = A, weights, outer
        self.excess = np.broadcast_to(excess, (weights.shape[0], K))
        self.total = weights.sum(axis=1) + self.excess.sum(axis=1)

    def take(self, groups: Indices) -> "Mixtures":
        """Return the problems of some groups, given by ascending numbers."""
        if groups.size == self.weights.shape[0]:
            return self
        A = self.A if self.A.ndim == 2 else self.A[groups]
        return Mixtures(A, self.weights[groups], self.excess[groups], self.outer)

    def single(self, group: int) -> Mixture:
        """Return the problem of one group, for the solvers of one problem."""
        A = self.A if self.A.ndim == 2 else self.A[group]
        return Mixture(A, weights=self.weights[group], alpha=1 + self.excess[group])

    def evaluate(self, p: Vector, *, exact: bool = True) -> tuple[Vector, Vector]:  # noqa: ARG002
        """Return the likelihood part of f, shape (G,), and of its gradient, shape (G, K)."""
        u, used = self._mix(p), self.weights > 0
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            log = np.log(u, out=np.zeros_like(u), where=used)
            over = np.divide(self.weights, u, out=np.zeros_like(u), where=used)
            # NaN where a row's mixture is 0: no gap certifies that
            slope = over @ self.A if self.A.ndim == 2 else (over[:, None, :] @ self.A)[:, 0]
        return np.einsum("gm,gm->g", self.weights, log), slope

    def hessian(self, p: Vector) -> Vector:
        r"""Return :math:`A^T \mathrm{diag}(w/(Ap)^2) A` of each group: (G, K, K)."""
        G, K = p.shape
        u = self._mix(p)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # as in `evaluate`
            curvature = np.divide(self.weights, u**2, out=np.zeros_like(u), where=self.weights > 0)
            if self.outer is not None:
                return (curvature @ self.outer).reshape(G, K, K)
            return np.swapaxes(self.A, -1, -2) @ (self.A * curvature[:, :, None])

    def _mix(self, p: Vector) -> Vector:
        return p @ self.A.T if self.A.ndim == 2 else (self.A @ p[:, :, None])[:, :, 0]


class Point(NamedTuple):
    """p > 0, not yet scaled onto the simplex, with f, its derivatives and certificate there.

    `slope` is the gradient of the likelihood alone; the gap is that of p / sum p, since
    g(cp) = g(p) / c.
    """

    p: Vector
    objective: float
    slope: Vector
    gradient: Vector
    gap: float
    exact: bool


Solver = Callable[[Vector], Vector]
"""Takes b, returns the x that solves a linear system."""


def factorise(H: Vector, diagonal: Vector) -> Solver:
    """Factorise H + diag(diagonal), positive definite but for rounding; return its solver.

    Scaled to a unit diagonal, because p and z differ by many orders of magnitude near a solution.
    """
    scale = 1 / np.sqrt(np.maximum(np.diagonal(H), 0) + diagonal)
    ridges = RIDGES if scale.all() else ()  # an entry of H may be infinite
    for ridge in ridges:
        system = H * scale[:, None]
        system *= scale
        system.flat[:: scale.size + 1] = 1 + ridge
        # the transpose of a symmetric matrix is LAPACK's own order: no copy
        factor, failed = dpotrf(system.T, lower=1, clean=0, overwrite_a=1)
        if not failed:
            return lambda b: scale * dpotrs(factor, scale * b, lower=1)[0]
    return lambda b: scale**2 * b  # rounding has destroyed all but the diagonal


# Kernels are no closures, so that a cluster's workers receive only what they need.


def _every(stride: int, block: Block, rows: slice) -> list[Floats]:
    return [np.array(block[-rows.start % stride :: stride])]


def _impossible(scale: Vector, block: Block, _: slice) -> int:
    """Count rows that are all 0 once scaled."""
    return int(np.count_nonzero(times(block, scale) <= block.dtype.type(NO_LIKELIHOOD)))


def _mix(
    scaled: Vector, weights: Vector | None, hidden: Vector | None, block: Block, rows: slice
) -> tuple[Vector | None, Vector]:
    """Return the weights of a block's rows, None for 1, and their likelihoods at the scaled p."""
    u = times(block, scaled)
    if hidden is not None:  # rows that are all 0 once scaled weigh nothing, and others 1
        possible = times(block, hidden) > block.dtype.type(NO_LIKELIHOOD)
        possible = possible.reshape(-1, *[1] * (u.ndim - 1))
        return possible.astype(np.float64), np.where(possible, u, 1.0)
    if weights is None:
        return None, u
    w = weights[rows]
    return (w if u.ndim == 1 else w[:, None]), u


def _evaluate(mix: Mix, block: Block, rows: slice) -> tuple[float, Vector]:
    """Return the likelihood of a block, and its gradient by the scaled p."""
    w, u = mix(block, rows)
    u = u.astype(np.float64, copy=False)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logs = np.log(u)
        likelihood = float((logs if w is None else w * logs).sum())
        slopes = np.divide(1.0 if w is None else w, u, out=logs)
        return likelihood, slopes.astype(block.dtype, copy=False) @ block


def _gram(mix: Mix, scale: Vector | None, block: Block, rows: slice) -> Vector:
    """Return `sum_i w_i/(a_i.p)^2 a_i a_i^T` of a block, scaled if a scale is given."""
    w, u = mix(block, rows)
    if scale is not None:
        block = block * scale.astype(block.dtype)
    root = 1.0 if w is None else np.sqrt(w)
    block = block * (root / u)[:, None].astype(block.dtype, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):  # a row that is next to impossible
        return block.T @ block


def _taken(A: Any, kernel: Callable[[Block, slice], Vector], some: Indices, rows: slice) -> Vector:
    """Apply a kernel to the rows of an array that have these numbers."""
    return kernel(A[some[:, 0]], rows)


def _evaluate_and_gram(
    mix: Mix, scale: Vector | None, block: Block, rows: slice
) -> tuple[float, Vector, Vector]:
    """Return what `_evaluate` finds in float64, and `_gram` in the precision of the data."""
    exact = block.astype(np.float64, copy=False)
    return *_evaluate(mix, exact, rows), _gram(mix, scale, block, rows)


def _sample(
    mixed: Vector,
    scale: Vector,
    weights: Vector | None,
    step: float,
    fetched: bool,
    block: Block,
    rows: slice,
) -> tuple[list[Floats | Indices], list[Vector]]:
    """Choose rows by a bound on their leverage; return them, or their numbers, and their weight.

    Each stands for as many rows as it is chosen in proportion to.
    """
    u = times(block, mixed).astype(np.float64, copy=False)
    leverage = times(block, scale)
    leverage = np.divide(leverage, u, out=np.zeros_like(u), where=u > 0)
    if weights is not None:
        leverage *= weights[rows]
    # where the ticks begin must not be the same in all blocks, or small ones are never chosen
    first = (rows.start + 1) * GOLDEN_RATIO % 1
    cumulated = np.cumsum(leverage)
    ticks = np.arange(first * step, cumulated[-1], step)
    at = np.searchsorted(cumulated, ticks).clip(max=leverage.size - 1)
    chosen, hits = np.unique(at, return_counts=True)
    return [block[chosen] if fetched else chosen + rows.start], [hits * step / leverage[chosen]]
