r"""Many mixture problems at once: one a group, with one matrix for all or one for each.

.. math:: \max_{p_g \in \Delta}\ \sum_i w_{gi} \log(a_{gi} \cdot p_g) + \sum_k e_{gk} \log p_{gk},
    \qquad T_g = \sum_i w_{gi} + \sum_k e_{gk}

It is the problem of `priorshift.solvers` with a first axis for groups. Every group has its own
certificate, :math:`\max_k g_k - T_g`, in nats.
"""

from dataclasses import dataclass

import numpy as np

from priorshift._typing import Indices, Vector
from priorshift.solvers import Mixture

OUTER_CLASSES = 64
"""Up to so many classes all products of a shared matrix's columns are kept: Hessians are one
matrix product then."""


@dataclass(frozen=True)
class Mixtures:
    """The data of G problems with K unknowns each.

    Attributes
    ----------
    A : ndarray of shape (m, K) or (G, m, K)
        Rows a_i: the same for all groups, or those of each. None of weight above 0 is all 0.
    weights : ndarray of shape (G, m)
    excess : ndarray of shape (G, K)
        alpha - 1 of the Dirichlet hyper-prior, at least 0.
    """

    A: Vector
    weights: Vector
    excess: Vector
    outer: Vector | None = None

    @classmethod
    def of(cls, A: Vector, weights: Vector, excess: Vector | float = 0.0) -> "Mixtures":
        """Build the problems."""
        K = A.shape[-1]
        outer = None
        if A.ndim == 2 and K <= OUTER_CLASSES:
            outer = (A[:, :, None] * A[:, None, :]).reshape(A.shape[0], K * K)
        return cls(A, weights, np.broadcast_to(excess, (weights.shape[0], K)), outer)

    @property
    def total(self) -> Vector:
        """T, the weight of all rows and of the hyper-prior, by group."""
        return self.weights.sum(axis=1) + self.excess.sum(axis=1)

    def take(self, groups: Indices) -> "Mixtures":
        """Return the problems of some groups."""
        A = self.A if self.A.ndim == 2 else self.A[groups]
        return Mixtures(A, self.weights[groups], self.excess[groups], self.outer)

    def single(self, group: int) -> Mixture:
        """Return the problem of one group, for the solvers of one problem."""
        A = self.A if self.A.ndim == 2 else self.A[group]
        return Mixture.of(A, weights=self.weights[group], alpha=1 + self.excess[group])

    def evaluate(self, p: Vector) -> tuple[Vector, Vector]:
        """Return the likelihood part of f, shape (G,), and of its gradient, shape (G, K)."""
        u, used = self._mix(p), self.weights > 0
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            log = np.log(u, out=np.zeros_like(u), where=used)
            over = np.divide(self.weights, u, out=np.zeros_like(u), where=used)
            slope = self._back(over)  # NaN where a row's mixture is 0: no gap certifies that
        return np.einsum("gm,gm->g", self.weights, log), slope

    def hessian(self, p: Vector) -> Vector:
        r"""Return :math:`A^T \mathrm{diag}(w/(Ap)^2) A` of each group: (G, K, K)."""
        G, K = p.shape
        u = self._mix(p)
        curvature = np.divide(self.weights, u**2, out=np.zeros_like(u), where=self.weights > 0)
        if self.outer is not None:
            return (curvature @ self.outer).reshape(G, K, K)
        return np.swapaxes(self.A, -1, -2) @ (self.A * curvature[:, :, None])

    def over(self, p: Vector) -> Vector:
        """Return the hyper-prior's gradient (alpha - 1) / p, and 0 where alpha is 1."""
        with np.errstate(divide="ignore"):
            return np.divide(self.excess, p, out=np.zeros_like(p), where=self.excess != 0)

    def objective(self, p: Vector, likelihood: Vector) -> Vector:
        """Add the hyper-prior's part to the likelihood: f(p)."""
        with np.errstate(divide="ignore"):
            log = np.log(p, out=np.zeros_like(p), where=self.excess != 0)
        return likelihood + np.einsum("gk,gk->g", self.excess, log)

    def _mix(self, p: Vector) -> Vector:
        if self.A.ndim == 2:
            return p @ self.A.T
        return (self.A @ p[:, :, None])[:, :, 0]

    def _back(self, v: Vector) -> Vector:
        if self.A.ndim == 2:
            return v @ self.A
        return (v[:, None, :] @ self.A)[:, 0]
