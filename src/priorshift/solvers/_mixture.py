r"""The one convex problem behind EM, MAP, CM-L, SCM-L, CM-M and SCM-M.

.. math:: \max_{p \in \Delta}\ f(p) = \sum_i w_i \log(a_i \cdot p) + \sum_k (\alpha_k - 1) \log p_k

with the gradient :math:`g = A^T (w / Ap) + (\alpha - 1) / p` and :math:`T = \sum_i w_i + \sum_k
(\alpha_k - 1)`. Because :math:`p \cdot g = T` on the simplex and f is concave for
:math:`\alpha \ge 1`, every p carries its own certificate:

.. math:: f(p^*) - f(p) \le g \cdot p^* - g \cdot p \le \max_k g_k - T.

The problem does not change when a row of A is rescaled (f shifts by a constant), when rows of
weight 0 are dropped, or when equal rows are merged and their weights added.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from priorshift._blocks import row_blocks
from priorshift._typing import Floats, Indices, Vector
from priorshift.execution import map_rows, multiply

HESSIAN_PARTS = 2
"""Every part of a Hessian in the making holds a K x K matrix: few parts, little memory."""

SMALLEST_BLOCK_BYTES = 2**16
LARGEST_BLOCK_BYTES = 2**23
"""Blocks of this size cost two threads as little as one pass of BLAS over everything (measured)."""

GEMM_SPEED_UP = 16
"""A product of matrices takes far less time a multiplication than one with a vector."""


@dataclass(frozen=True)
class Mixture:
    """The data of the problem: `f(p) = sum_i w_i log(a_i . (scale * p)) + excess . log p`.

    `scale` multiplies the columns, so that dividing posteriors by source priors needs no copy.
    Build it with `Mixture.of`, which leaves out the rows that take no part in f.

    Attributes
    ----------
    A : ndarray of shape (n, K)
        Rows a_i, at least 0, float32 or float64, none of them all 0.
    scale : ndarray of shape (K,)
        Factor of each column.
    weights : ndarray of shape (n,) or None
        Weight of each row, above 0; None is 1 for all.
    excess : ndarray of shape (K,)
        alpha - 1 of the Dirichlet hyper-prior.
    total : float
        T, the weight of all rows and of the hyper-prior.
    impossible : float
        Weight of the rows left out because no p explains them: all 0, yet observed.
    """

    A: Floats
    scale: Vector
    weights: Vector | None
    excess: Vector
    total: float
    impossible: float

    @classmethod
    def of(
        cls,
        A: Floats,
        *,
        scale: Vector | None = None,
        weights: Vector | None = None,
        alpha: float | Vector = 1.0,
    ) -> "Mixture":
        """Build the problem, dropping rows of weight 0 and rows that are all 0."""
        scale = np.ones(A.shape[1]) if scale is None else scale
        excess = np.broadcast_to(np.asarray(alpha, np.float64) - 1, scale.shape)
        factor = scale.astype(A.dtype)
        parts = map_rows(lambda rows: A[rows] @ factor > 0, A.shape[0], work=A.size)
        possible = np.concatenate(parts)
        keep = possible if weights is None else possible & (weights > 0)
        impossible = float((~possible if weights is None else weights[~possible]).sum())
        if not keep.all():
            A, weights = A[keep], None if weights is None else weights[keep]
        mass = A.shape[0] if weights is None else weights.sum()
        return cls(A, scale, weights, excess, float(mass + excess.sum()), impossible)

    @property
    def n_classes(self) -> int:
        """K, the number of classes."""
        return self.A.shape[1]

    def evaluate(self, p: Vector, *, exact: bool = True) -> tuple[float, Vector]:
        """Return the likelihood part of f and of its gradient, in one pass over blocks of rows.

        `exact=False` multiplies blocks in the data's own precision (sums over blocks stay in
        float64): good enough to move by, never to certify with. Where p leaves a row without any
        probability, the likelihood is -inf and the gradient is not finite.
        """
        mixed = self.scale * p

        def kernel(part: slice) -> tuple[float, Vector]:
            likelihood, gradient = 0.0, np.zeros(self.n_classes)
            for rows, block in self._blocks(part, exact):
                u = (block @ mixed.astype(block.dtype)).astype(np.float64, copy=False)
                w = 1.0 if self.weights is None else self.weights[rows]
                with np.errstate(divide="ignore", invalid="ignore"):
                    likelihood += float((w * np.log(u)).sum())
                    gradient += (w / u).astype(block.dtype, copy=False) @ block
            return likelihood, gradient

        likelihoods, gradients = zip(
            *map_rows(kernel, self.A.shape[0], work=self.A.size), strict=True
        )
        return sum(likelihoods), self.scale * np.sum(gradients, axis=0)

    def gradient(self, p: Vector, likelihood_gradient: Vector) -> Vector:
        """Add the hyper-prior's part (alpha - 1) / p to the gradient of the likelihood."""
        return likelihood_gradient + self._over(p)

    def objective(self, p: Vector, likelihood: float) -> float:
        """Add the hyper-prior's part to the likelihood: f(p)."""
        used = self.excess != 0
        with np.errstate(divide="ignore"):
            return likelihood + float(self.excess[used] @ np.log(p[used]))

    def gap(self, gradient: Vector) -> float:
        """Bound f(p*) - f(p) by the gradient at a p of the simplex: max_k g_k - T."""
        gap = float(gradient.max() - self.total)
        return np.inf if np.isnan(gap) else gap

    def hessian(self, p: Vector, n_rows: int) -> Vector:
        r"""Return :math:`A^T \mathrm{diag}(w/(Ap)^2) A`, from all rows or a sample of them.

        The sample takes row i with a chance proportional to :math:`w_i \sum_k a_{ik} / (a_i
        \cdot p)`, a bound on its leverage, and weighs it by the inverse: rows of rare classes are
        kept where a plain sample would lose them. It is systematic, so the same every time.
        """
        mixed, chosen, times = (self.scale * p).astype(self.A.dtype), None, None
        if n_rows < self.A.shape[0]:
            chosen, times = self._sample_by_leverage(p, n_rows)

        def kernel(part: slice) -> Vector:
            hessian = np.zeros((self.n_classes, self.n_classes))
            for rows in row_blocks(part, self.n_classes, self._block_bytes()):
                at = rows if chosen is None else chosen[rows]
                block = self.A[at]
                factor = np.sqrt(1.0 if self.weights is None else self.weights[at])
                factor = factor / (block @ mixed)
                if times is not None:
                    factor = factor * np.sqrt(times[rows])
                block = block * factor[:, None].astype(block.dtype)
                hessian += block.T @ block
            return hessian

        n = self.A.shape[0] if chosen is None else chosen.size
        work = n * self.n_classes**2 / GEMM_SPEED_UP
        hessian, *others = map_rows(kernel, n, work=work, n_parts=HESSIAN_PARTS)
        for other in others:
            hessian += other
        if (self.scale != 1).any():
            hessian *= self.scale[:, None]
            hessian *= self.scale
        return hessian

    def _sample_by_leverage(self, p: Vector, n_rows: int) -> tuple[Indices, Vector]:
        """Choose rows by a bound on their leverage; return them with what each stands for."""
        leverage = multiply(self.A, self.scale) / multiply(self.A, self.scale * p)
        if self.weights is not None:
            leverage *= self.weights
        return _systematic_sample(leverage, n_rows)

    def _block_bytes(self) -> int:
        """Keep buffers small beside the user's data; a square matrix is our own."""
        n, K = self.A.shape
        if n <= 2 * K:
            return LARGEST_BLOCK_BYTES
        return min(LARGEST_BLOCK_BYTES, max(SMALLEST_BLOCK_BYTES, self.A.size * 8 // 32))

    def _over(self, p: Vector) -> Vector:
        """(alpha - 1) / p, and 0 where alpha is 1 even at p = 0."""
        with np.errstate(divide="ignore"):
            return np.divide(self.excess, p, out=np.zeros_like(p), where=self.excess != 0)

    def _blocks(self, part: slice, exact: bool) -> Iterator[tuple[slice, Floats]]:
        """Yield blocks of rows, as float64 if exact, through one reused buffer."""
        convert = exact and self.A.dtype != np.float64
        buffer = np.empty((0, self.n_classes))
        for rows in row_blocks(part, self.n_classes, self._block_bytes()):
            block = self.A[rows]
            if convert:
                size = rows.stop - rows.start
                buffer = buffer if buffer.shape[0] >= size else np.empty((size, self.n_classes))
                np.copyto(buffer[:size], block)
                block = buffer[:size]
            yield rows, block


def _systematic_sample(chance: Vector, size: int) -> tuple[Indices, Vector]:
    """Choose rows in proportion to `chance`; return them with how many rows each stands for."""
    cumulated = np.cumsum(chance)
    ticks = (np.arange(size) + 0.5) * (cumulated[-1] / size)
    chosen, hits = np.unique(np.searchsorted(cumulated, ticks), return_counts=True)
    return chosen, hits * (cumulated[-1] / size) / chance[chosen]
