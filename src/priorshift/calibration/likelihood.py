"""The convex problem behind calibration: softmax regression on log-probabilities `z`.

Over labelled rows of weights `w_i` the likelihood of scores `z S + b` is

    sum_i w_i [logsumexp_k(s_ik) - s_iy],   s_i = z_i S + b + offset

with one slope for all classes, one per class, or a matrix of them. The offset corrects for a
validation set whose class balance is not the training set's.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from priorshift._typing import Indices, Vector
from priorshift.border import BLOCK_BYTES, as_generator, row_blocks

IMPOSSIBLE = -1e300
"""A score whose exp is exactly 0, while 0 * IMPOSSIBLE is not NaN."""

LEAST_COLUMNS = 512
"""Of a block: matrix products of fewer samples are slow."""

LOG_SLOPES = (-14.0, 14.0)
"""Range in which the logarithm of a reciprocal temperature is searched."""


class ScoreMap(NamedTuple):
    """Scores `z S + b`, or a gradient in them: slopes of shape (K,) or (K, K), and biases."""

    slope: Vector
    bias: Vector


Family = Literal["bcts", "vs", "ms"]
"""Maps with a bias per class, and one slope for all classes, one per class, or a matrix of them.

One slope is a reciprocal temperature: its parameter is the logarithm, so that it stays above 0.
"""


class LabelLikelihood:
    """The negative log-likelihood of labels `y` in nats, a convex function of the map.

    `z` holds one row per class and one column per sample: sums over classes are then sums of long
    vectors. `parts` are the samples to go over, all of them by default; `total` is their weight,
    and `seen` tells which classes they have. Sums over samples are in float64, whatever the
    precision of `z`.
    """

    def __init__(
        self,
        z: Any,
        y: Indices,
        weight: Vector,
        offset: Vector,
        parts: Sequence[slice] | None = None,
    ) -> None:
        self.z, self.y, self.weight, self.offset = z, y, weight, offset
        self.parts = [slice(0, y.size)] if parts is None else parts
        counts = np.zeros(offset.size)
        for rows in self.parts:
            counts += np.bincount(y[rows], weight[rows], offset.size)
        self.total, self.seen = float(counts.sum()) or 1.0, counts > 0
        self._equal = bool((weight == 1).all())

    def on(self, parts: Sequence[slice]) -> "LabelLikelihood":
        """Return the likelihood of some of the samples."""
        return LabelLikelihood(self.z, self.y, self.weight, self.offset, parts)

    def without(self, fold: slice) -> "LabelLikelihood":
        """Return the likelihood of all samples but a fold; a single fold stands for itself."""
        if fold.stop - fold.start == self.y.size:
            return self
        return self.on([slice(0, fold.start), slice(fold.stop, self.y.size)])

    def value(self, at: ScoreMap) -> float:
        """Return the likelihood alone."""
        value = 0.0
        for _, _, weight, losses, _ in self._blocks(at):
            value += float(weight @ losses)
        return value

    def value_and_gradient(self, at: ScoreMap) -> tuple[float, ScoreMap]:
        """Return the likelihood and its gradient in slopes and biases."""
        value, slope, bias = 0.0, np.zeros(at.slope.shape), np.zeros(self.offset.size)
        for rows, places, weight, losses, residuals in self._blocks(at):
            value += float(weight @ losses)
            residuals.reshape(-1)[places] -= 1
            if not self._equal:
                residuals *= weight.astype(residuals.dtype)
            bias += residuals.sum(axis=1)
            if slope.ndim == 2:
                slope += self.z[:, rows] @ residuals.T
            else:
                slope += np.einsum("ij,ij->i", residuals, self.z[:, rows])
        return value, ScoreMap(slope, bias)

    def along_slope(self, at: ScoreMap) -> tuple[float, float, float]:
        """Return the likelihood and its first two derivatives in one slope for all classes."""
        value = first = second = 0.0
        for rows, _, weight, losses, proba in self._blocks(at):
            z = self.z[:, rows]
            proba *= z
            mean = proba.sum(axis=0)
            proba *= z
            square = proba.sum(axis=0)
            value += float(weight @ losses)
            first += float(weight @ (mean - z[self.y[rows], np.arange(weight.size)]))
            second += float(weight @ (square - mean * mean))
        return value, first, second

    def curvature(self, at: ScoreMap, family: Family) -> Vector:
        """Return the Hessian in the parameters of a family, but for matrices."""
        K, shared = self.offset.size, family == "bcts"
        n = 1 if shared else K
        hessian = np.zeros((n + K, n + K))
        flat, mixed, square = np.zeros((3, K))
        for rows, _, weight, _, proba in self._blocks(at):
            z, w = self.z[:, rows], weight.astype(proba.dtype)
            steep = proba * z
            flat += proba @ w
            mixed += steep @ w
            square += np.einsum("ij,ij,j->i", steep, z, w)
            if shared:
                steep = steep.sum(axis=0, keepdims=True)
            factors = np.vstack([steep, proba]) * np.sqrt(w)
            hessian -= factors @ factors.T
        slopes = np.ones((1, K)) if shared else np.eye(K)  # of the classes
        hessian[:n, :n] += (slopes * square) @ slopes.T
        hessian[:n, n:] += slopes * mixed
        hessian[n:, :n] += (slopes * mixed).T
        hessian[n:, n:] += np.diag(flat)
        if shared:  # its parameter is a logarithm
            hessian[0] *= at.slope[0]
            hessian[:, 0] *= at.slope[0]
        return hessian

    def curvature_of_matrix(self, at: ScoreMap) -> Vector:
        r"""Return :math:`\sum_i w_i\, x_i x_i^T \otimes (\mathrm{diag}\, p_i - p_i p_i^T)`.

        Features x are z and 1. All products of two features by all products of two probabilities
        are one matrix product.
        """
        K = self.offset.size
        one, other = np.triu_indices(K + 1)
        first, second = np.triu_indices(K)
        sums = np.zeros((one.size, first.size))
        for rows, _, weight, _, proba in self._blocks(at):
            features = np.vstack([self.z[:, rows], np.ones_like(proba[:1])])
            covariances = -proba[first] * proba[second]
            covariances[first == second] += proba
            covariances *= weight.astype(proba.dtype)
            sums += (features[one] * features[other]) @ covariances.T
        pairs, blocks = np.empty((K + 1, K + 1), np.intp), np.empty((K, K), np.intp)
        pairs[one, other] = pairs[other, one] = np.arange(one.size)
        blocks[first, second] = blocks[second, first] = np.arange(first.size)
        full = sums[pairs[:, :, None, None], blocks]
        return full.transpose(0, 2, 1, 3).reshape(K * (K + 1), K * (K + 1))

    def diagonal(self, at: ScoreMap, family: Family) -> tuple[Vector, Vector]:
        """Return the diagonal of the Hessian in the parameters of a family.

        Beside it, what couples slope and bias of each class: nothing where the slope is shared.
        """
        flat, mixed, steep = np.zeros((3, self.offset.size))
        for rows, _, weight, _, proba in self._blocks(at):
            z = self.z[:, rows]
            proba *= (1 - proba) * weight.astype(proba.dtype)
            flat += proba.sum(axis=1)
            proba *= z
            mixed += proba.sum(axis=1)
            steep += np.einsum("ij,ij->i", proba, z)
        if family == "bcts":
            steep = np.array([at.slope[0] ** 2 * self.along_slope(at)[2]])
            mixed[:] = 0.0
        return np.concatenate([steep, flat]), mixed

    def factors(self, at: ScoreMap) -> tuple[Vector, Vector]:
        """Return the factors A, B whose Kronecker product is close to a matrix map's Hessian.

        A is the mean covariance of one-hot labels, B the sum of products of features (z, 1).
        """
        K = self.offset.size
        covariance, products = np.zeros((K, K)), np.zeros((K + 1, K + 1))
        for rows, _, weight, _, proba in self._blocks(at):
            root = np.sqrt(weight).astype(proba.dtype)
            proba *= root
            covariance += np.diag(proba @ root) - proba @ proba.T
            features = np.vstack([self.z[:, rows] * root, root])
            products += features @ features.T
        return covariance / self.total, products

    def _blocks(self, at: ScoreMap) -> Iterator[tuple[slice, Indices, Vector, Vector, Any]]:
        """Pass over the samples: weights, losses, probabilities (yours to overwrite).

        Before these, rows, and where the entries of their labels are, probabilities in a row.
        """
        dtype = self.z.dtype
        slope = at.slope.T.astype(dtype)
        lowest = -1e-8 * float(np.finfo(dtype).max)  # IMPOSSIBLE may be too low for float32
        shift = np.maximum(at.bias + self.offset, lowest).astype(dtype)[:, None]
        block_bytes = max(BLOCK_BYTES, 8 * self.z.shape[0] * LEAST_COLUMNS)
        for part in self.parts:
            for rows in row_blocks(part, self.z.shape[0], block_bytes):
                z = self.z[:, rows]
                scores = (  # row after row, as `places` takes them to be
                    slope @ z if slope.ndim == 2 else np.multiply(z, slope[:, None], order="C")
                )
                scores += shift
                scores -= scores.max(axis=0)
                n = rows.stop - rows.start
                places = np.multiply(self.y[rows], n, dtype=np.intp) + np.arange(n)
                labelled = scores.reshape(-1)[places]
                np.exp(scores, out=scores)
                mass = scores.sum(axis=0)
                scores /= mass
                yield rows, places, self.weight[rows], np.log(mass) - labelled, scores


def rebalance(
    y: Indices, weight: Vector, priors: Vector, balance: str = "offset"
) -> tuple[Vector, Vector]:
    """Return the weights and the offset that make labels count as a draw from `priors`.

    A class with prior 0 never occurs in such a draw, so its rows drop out either way.
    """
    frequencies = np.bincount(y, weight, priors.size) / (weight.sum() or 1.0)
    shared = (frequencies > 0) & (priors > 0)
    ratio = np.divide(priors, frequencies, out=np.zeros_like(priors), where=shared)
    if balance == "weights":
        return weight * ratio[y], np.zeros_like(priors)
    offset = np.full_like(priors, IMPOSSIBLE)
    offset[shared] = -np.log(ratio[shared])
    dropped = (frequencies > 0) & ~shared
    return weight * shared[y] if dropped.any() else weight, offset


def deal_folds(y: Indices, n_folds: int, stratified: bool, random_state: Any) -> Indices:
    """Deal shuffled rows to folds in turn, class by class if stratified."""
    order = as_generator(random_state or 0).permutation(y.size)
    if stratified:  # classes in order of appearance, so their order in `classes` does not matter
        first = np.full(y.max(initial=0) + 1, y.size)
        np.minimum.at(first, y, np.argsort(order))
        rank = np.argsort(np.argsort(first)).astype(np.int32)
        order = order[np.argsort(rank[y[order]], kind="stable")]
    folds = np.empty(y.size, dtype=np.intp)
    folds[order] = np.arange(y.size) % n_folds
    return folds


def by_fold(
    y: Indices, n_folds: int, stratified: bool, random_state: Any, groups: Indices | None = None
) -> tuple[Indices, tuple[slice, ...]]:
    """Return rows ordered fold by fold, and where each fold lies.

    Rows of one group stay together: the largest groups first, each to the smallest fold.
    """
    folds = deal_folds(y, min(n_folds, y.size), stratified, random_state)
    if groups is not None and groups.max(initial=0) > 0:
        size = np.bincount(groups)
        filled, fold_of = np.zeros(min(n_folds, size.size)), np.zeros(size.size, np.intp)
        for group in np.argsort(-size, kind="stable"):
            fold_of[group] = filled.argmin()
            filled[fold_of[group]] += size[group]
        folds = fold_of[groups]
    order = np.argsort(folds, kind="stable").astype(np.min_scalar_type(y.size))  # it is kept
    ends = np.cumsum(np.bincount(folds)).tolist()
    return order, tuple(map(slice, [0, *ends[:-1]], ends))
