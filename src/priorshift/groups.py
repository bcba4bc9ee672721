r"""Priors by group (site, week, device): one pass, one certificate per group, partial pooling.

Methods with a confusion matrix C need only each group's counts of decisions (`GroupCounts`). All
groups are solved together, each to its own duality gap: likelihoods as one batch of mixture
problems, inversions as one linear system with as many right-hand sides as groups. EM and MAP work
on the rows themselves: those of each group are its own mixture problem.

**How far to pool**: what a small group borrows from the others. The mean decision :math:`q_g` of a
group with :math:`n_g` rows varies with its rows and its priors,

.. math:: q_g \sim N\!\left(\mu,\ \Sigma / n_g + v\, C D C^T\right), \qquad
    D = \mathrm{diag}(d) - d d^T,

with the covariance :math:`\Sigma` of the rows as they are (summed probabilities are not counts) and
the spread :math:`v D` of Dirichlet priors around those of all rows, d, with a total of
:math:`\tau`, :math:`v = 1 / (1 + \tau)`. Validation's noise is the same for all groups and does not
separate them. The axes that make :math:`\Sigma` the identity and :math:`C D C^T` diagonal, s, turn
all groups into independent numbers :math:`\theta_{gj} \sim N(\mu_j, 1/n_g + v s_j)`: their
restricted likelihood gives v, and

.. math:: \rho_{gj} = \frac{n_g v s_j}{1 + n_g v s_j}, \qquad
    E[\theta_{gj} \mid \text{data}] = \mu_j + \rho_{gj} (\bar\theta_{gj} - \mu_j)

is how far each group keeps its own decisions. Directions in which the classifier hardly tells
classes apart have a small s and are pooled most.

Groups of EM and MAP maximise their likelihood under a Dirichlet distribution around the pooled
priors with a total of 1 / v - 1. Their v is found from the posteriors :math:`r` under the priors of
all rows, whose means follow from the priors as those of decisions do: :math:`E_g[r] = R\, p_g` with
:math:`R_{km} = E[r_k r_m] / p_m`.

**Intervals** are those of one target (`priorshift.intervals`): a row's votes :math:`C^{-1} d` have
the variance :math:`p_m (1 - p_m) + \sum_k p_k T_{km}`, with the spread :math:`T_{km}` of vote m
within class k on validation. A small group cannot show its own spread, so the one at its priors is
used. Pooling leaves less of it, as if the group had more rows; validation's noise stays.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from priorshift._results import Backend, FrozenArrays, make_frame
from priorshift._typing import Floats, Indices, Labels, Mask, Vector
from priorshift.adapt import adapt_predictions, prior_ratio, total_variation
from priorshift.border import (
    BLOCK_BYTES,
    Block,
    Predictions,
    Rows,
    Table,
    as_decisions,
    check_choice,
    check_outputs,
    check_proba,
    check_source_mass,
    column_of,
    dense,
    map_reduce,
    read_groups,
    read_proba,
    row_blocks,
    single_threaded_blas,
    some,
)
from priorshift.counts import Decision, DecisionCounts
from priorshift.estimators import PriorEstimate, PriorEstimator
from priorshift.estimators.bounds import votes_of_validation
from priorshift.estimators.data import require_decisions
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning, argument, warn_user
from priorshift.intervals import IntervalRequest, score_bounds
from priorshift.solvers import Solutions, Status, invert, maximise_by_group
from priorshift.text import brief, movers, text_table

Pooling = float | Literal["auto"] | None

LARGEST_BLOCK_BYTES = 2**25
"""Every block adds to the sums of all groups: with many groups, blocks must be large."""

LOG_VARIANCES = np.linspace(-7, 1, 33)
"""The grid on which log10 v is searched; v = 0 is tried too, and the best interval is refined."""

MAX_ROWS = 10
"""Groups that a repr shows; if there are more, those that moved most."""


# Labels of groups, and counts of their decisions


@dataclass(frozen=True, eq=False, repr=False)
class GroupCounts:
    """Decisions counted by group, for any number of rows: argmax counts, or summed probabilities.

    You can count parts of the target separately, in any order and anywhere, and add them with `+`;
    a group may be in one part and not in another. The sum is that of one count over all rows.

    Attributes
    ----------
    groups : ndarray of shape (n_groups,)
        Group labels, sorted.
    decision : {"hard", "soft"}
    n_rows : ndarray of shape (n_groups,)
        Rows counted.
    counts : ndarray of shape (n_groups, n_classes)
        Decisions for each class.
    second : ndarray of shape (n_classes, n_classes)
        Sum over all rows of the products of their decisions.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
    >>> monday = ps.GroupCounts.from_arrays(y_proba, ["north", "south", "north"], decision="hard")
    >>> tuesday = ps.GroupCounts.from_arrays(y_proba[:1], ["east"], decision="hard")
    >>> week = monday + tuesday
    >>> week.groups, week.counts
    (array(['east', 'north', 'south'], dtype='<U5'), array([[1., 0.],
           [1., 1.],
           [1., 0.]]))
    """

    groups: Labels
    decision: Decision
    n_rows: Indices
    counts: Vector
    second: Vector

    @classmethod
    def from_arrays(cls, y_proba: Any, groups: ArrayLike, *, decision: Decision) -> GroupCounts:
        """Count decisions by group.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes)
            Predicted probabilities, columns in the order of the estimator's classes. Data that are
            read in blocks work too: files, sparse matrices, Dask arrays.
        groups : array-like of shape (n_samples,)
            Group of each row: text, numbers or dates.
        decision : {"hard", "soft"}
            The kind that the estimator's confusion matrix counts, `confusion_.decision`.
        """
        check_choice(decision, ("hard", "soft"), "decision")
        values = check_proba(y_proba, tables=True).values
        return count_groups(values, *encode_groups(read_groups(groups, values.shape[0])), decision)

    def __add__(self, other: GroupCounts) -> GroupCounts:
        K, others = self.counts.shape[1], other.counts.shape[1]
        if self.decision != other.decision or others != K:
            raise ValueError(
                f"cannot add {self.decision} counts of {K} classes to {other.decision} counts of "
                f"{others} classes; count both the same way."
            )
        if (self.groups.dtype.kind == "U") != (other.groups.dtype.kind == "U"):
            raise ValueError(
                f"cannot add groups named {some(self.groups.tolist(), 3)} to groups named "
                f"{some(other.groups.tolist(), 3)}, of another kind; use text for both."
            )
        names, at = np.unique(np.concatenate([self.groups, other.groups]), return_inverse=True)
        n_rows, counts = np.zeros(names.size, np.intp), np.zeros((names.size, K))
        np.add.at(n_rows, at, np.concatenate([self.n_rows, other.n_rows]))
        np.add.at(counts, at, np.concatenate([self.counts, other.counts]))
        return GroupCounts(names, self.decision, n_rows, counts, self.second + other.second)

    def __repr__(self) -> str:
        """Show the size."""
        return (
            f"GroupCounts({self.decision} decisions of {int(self.n_rows.sum())} rows, "
            f"{self.groups.size} groups, {self.counts.shape[1]} classes)"
        )


def count_groups(y_proba: Rows, names: Labels, codes: Indices, decision: Decision) -> GroupCounts:
    """Count clean rows by the numbers of their groups, in blocks, wherever the rows are."""
    K, G = y_proba.shape[1], names.size
    size = min(max(BLOCK_BYTES, 8 * G * K), LARGEST_BLOCK_BYTES)
    data = y_proba if decision == "hard" else dense(y_proba)
    kernel = partial(_count_block, codes, G, decision)
    # every part that is being counted holds the sums of all groups: few parts, little memory
    counts, second = map_reduce(kernel, data, block_bytes=size, n_parts=2)
    if decision == "hard":
        second = np.diag(counts.sum(axis=0))
    return GroupCounts(names, decision, np.bincount(codes, minlength=G), counts, second)


def _count_block(
    codes: Indices, n_groups: int, decision: Decision, block: Block, rows: slice
) -> tuple[Vector, Vector]:
    """Count the decisions of a block by group, and sum their products: (G, K) and (K, K)."""
    K, code = block.shape[1], codes[rows]
    if decision == "hard":
        counts = np.bincount(code * K + block.argmax(axis=1), minlength=n_groups * K)
        return counts.reshape(-1, K).astype(np.float64), np.zeros((0, 0))
    block = block.astype(np.float64, copy=False)
    # a product with a sparse matrix of codes sums by group without sorting
    ends = np.arange(code.size + 1)
    members = csr_array((np.ones(code.size), code, ends), (code.size, n_groups))
    return members.T @ block, block.T @ block


def encode_groups(labels: Labels) -> tuple[Labels, Indices]:
    """Return the sorted groups, and the number of each row's group among them.

    Examples
    --------
    >>> import numpy as np
    >>> encode_groups(np.array([7, 3, 7]))
    (array([3, 7]), array([1, 0, 1]))
    """
    if labels.dtype.kind in "iu" and labels.size:
        low, high = int(labels.min()), int(labels.max())
        # counting is faster than sorting where numbers span little more than the rows
        if high - low < 4 * labels.size and high < 2**62 and low > -(2**62):
            offsets = labels.astype(np.intp) - low
            present = np.bincount(offsets) > 0
            number = np.cumsum(present) - 1
            return (np.flatnonzero(present) + low).astype(labels.dtype), number[offsets]
    names, codes = np.unique(labels, return_inverse=True)
    return names, codes.reshape(-1).astype(np.intp, copy=False)


def match_groups(labels: Labels, groups: Labels, *, refuse: bool = True) -> Indices:
    """Return the position of each label among sorted groups.

    A label that is not there is refused, or else gets the position after the last.
    """
    if (labels.dtype.kind == "U") != (groups.dtype.kind == "U"):
        raise ValueError(
            f"the groups are {some(groups.tolist(), 3)} but you gave {some(labels[:3].tolist())}, "
            "of another kind; use the same names in both."
        )
    names, codes = encode_groups(labels)
    at = np.searchsorted(groups, names).clip(max=groups.size - 1)
    unknown = groups[at] != names
    if refuse and unknown.any():
        raise ValueError(
            f"there is no estimate for group {some(names[unknown].tolist())}; the groups are "
            f"{some(groups.tolist())}. Estimate them together with the others, or use `pooled`."
        )
    return np.where(unknown, groups.size, at)[codes]


# How far to pool


class Pool:
    r"""Mean decisions of groups along the axes of noise and signal, and what they borrow.

    The axes are those of a confusion matrix C and the whole's priors.

    Attributes
    ----------
    mass : ndarray of shape (G,)
        Rows n_g.
    mean : ndarray of shape (K,)
        Mean decision of all rows.
    theta : ndarray of shape (G, J)
        Each group's mean decision less that mean, along the J = K - 1 axes.
    signal : ndarray of shape (J,)
        s, the spread of theta for v = 1 and without noise.
    axes : ndarray of shape (K, J)
        Decisions for a unit of each theta.
    to_priors : ndarray of shape (K, J)
        Priors for a unit of each theta.
    variance : float
        v; 0 if groups do not differ at all.
    """

    def __init__(
        self, pooling: float | Literal["auto"], counts: GroupCounts, C: Vector, priors: Vector
    ) -> None:
        mass, sums = counts.n_rows.astype(np.float64), counts.counts
        N, K = mass.sum(), C.shape[1]
        self.mass, self.mean = mass, sums.sum(axis=0) / N
        q = np.tile(self.mean, (mass.size, 1))
        np.divide(sums, mass[:, None], out=q, where=mass[:, None] > 0)
        Sigma = within_covariance(counts)
        d = (N * priors + 1 / K) / (N + 1)  # one more row, of any class, as in Sigma
        with single_threaded_blas():
            signal = (C * d) @ C.T - np.outer(C @ d, C @ d)
            s, X = eigh(signal[:-1, :-1], Sigma[:-1, :-1])
            axes = Sigma[:-1, :-1] @ X
            self.axes = np.vstack([axes, -axes.sum(axis=0)])
            self.theta = (q - self.mean)[:, :-1] @ X
            self.to_priors = invert(C) @ self.axes
        self.signal = np.maximum(s, 0)
        if pooling == "auto":
            self.variance = _likeliest_variance(mass, self.theta, self.signal)
        else:
            self.variance = 1 / (1 + pooling)

    @property
    def strength(self) -> float:
        """Rows that the pooled priors count for: the total of a Dirichlet, v = 1 / (1 + total)."""
        return np.inf if self.variance == 0 else max(1 / self.variance - 1, 0.0)

    @property
    def borrowed(self) -> Vector:
        """1 - rho, how far each group takes the centre's instead of its own by axis: (G, J)."""
        return 1 / (1 + self.mass[:, None] * (self.variance * self.signal))

    @property
    def weights(self) -> Vector:
        """Share of the spread between priors that each group's own rows explain."""
        size = (self.to_priors**2).sum(axis=0) * self.signal
        return (1 - self.borrowed) @ (size / size.sum()) if size.any() else 0 * self.mass

    @property
    def centre(self) -> Vector:
        """Mu along the axes: the mean of groups, weighted by how well each is known."""
        precision = self.mass[:, None] * self.borrowed
        return (precision * self.theta).sum(axis=0) / precision.sum(axis=0)

    def decisions(self, theta: Vector) -> Vector:
        """Return mean decisions from their coordinates along the axes, none of them below 0."""
        decisions = np.maximum(self.mean + theta @ self.axes.T, 0)
        return decisions / decisions.sum(axis=-1, keepdims=True)

    def prior_variance(self) -> Vector:
        """Return the remaining variance of each group's priors, from the target's rows alone.

        It includes the noise of the centre.
        """
        borrowed = self.borrowed
        of_centre = 1 / (self.mass[:, None] * borrowed).sum(axis=0)
        left = self.variance * self.signal * borrowed + borrowed**2 * of_centre
        return left @ (self.to_priors**2).T


def _likeliest_variance(mass: Vector, theta: Vector, signal: Vector) -> float:
    """Return the v that makes the groups' decisions most likely; 0 if they are all alike."""
    informative = mass > 0
    if np.count_nonzero(informative) < 2:
        return 0.0
    n, theta = mass[informative, None], theta[informative]

    def cost(log_v: float) -> float:
        return -_log_likelihood(n, theta, 10.0**log_v * signal)

    at = LOG_VARIANCES[np.argmin([cost(log_v) for log_v in LOG_VARIANCES])]
    step = LOG_VARIANCES[1] - LOG_VARIANCES[0]
    near = {"bounds": (at - step, at + step), "options": {"xatol": 1e-3}}
    found = minimize_scalar(cost, method="bounded", **near)
    return float(10.0**found.x) if found.fun < cost(-np.inf) else 0.0


def within_covariance(counts: GroupCounts) -> Vector:
    """Return the covariance of rows' decisions about their group's mean, one more row included.

    Groups of few rows say little about it, so as many rows as there are classes count by their
    distance from the mean of all rows instead.
    """
    mass, sums = counts.n_rows, counts.counts
    N, K = mass.sum(), sums.shape[1]
    present = mass > 0
    mean = sums.sum(axis=0) / N
    total = counts.second / N - np.outer(mean, mean)
    scaled = sums[present] / np.sqrt(mass[present, None])
    freedom = max(N - np.count_nonzero(present), 0.0)
    with single_threaded_blas():
        within = counts.second - scaled.T @ scaled if freedom else np.zeros((K, K))
    covariance = (within + K * total) / (freedom + K)
    covariance -= covariance.mean(axis=0)  # decisions sum to 1, except for rounding
    covariance -= covariance.mean(axis=1, keepdims=True)
    # a class that never occurs would seem to have no noise, or less than none in float32
    with single_threaded_blas():
        below = max(-float(np.linalg.eigvalsh(covariance)[0]), 0.0)
    least = 1 / (K * N) + 1e-10 * np.trace(covariance) / K + 2 * below
    return covariance + (np.eye(K) - 1 / K) * least


def _log_likelihood(n: Vector, theta: Vector, variance: Vector) -> float:
    """Return the restricted log-likelihood of theta ~ N(mu, 1/n + variance), mu left out."""
    weight = n / (1 + n * variance)
    total = weight.sum(axis=0)
    away = theta - (weight * theta).sum(axis=0) / total
    spread = np.einsum("gj,gj,gj->", weight, away, away)
    return 0.5 * float(np.log(weight).sum() - np.log(total).sum() - spread)


# One estimate per group


@dataclass(frozen=True, eq=False, repr=False)
class GroupEstimates(FrozenArrays):
    """Estimated target priors of each group; frozen, picklable, without sample rows.

    `found["site 3"]` is the `PriorEstimate` of the group with that label.

    Attributes
    ----------
    groups : ndarray of shape (n_groups,)
        Group labels, sorted, in the order of every array here.
    n : ndarray of shape (n_groups,)
        Rows of each group.
    priors : ndarray of shape (n_groups, n_classes)
        Estimated target priors.
    weight : ndarray of shape (n_groups,)
        How far each group keeps its own estimate: 1 uses its own rows only, 0 the pooled priors. It
        is the share of the spread between groups' priors that the group's own rows explain.
    pooling : float
        How many rows the pooled priors count for, as a Dirichlet distribution with this total: 0 is
        no pooling, infinity is one estimate for all groups.
    whole : PriorEstimate
        Estimate from all rows together.
    pooled : PriorEstimate
        What small groups are drawn to: the mean of groups, weighted by how well each is known. It
        is `whole` if groups are all alike, or not pooled.
    status : ndarray of shape (n_groups,)
        "certified", "direct" or "not_converged", as in `PriorEstimate`.
    gap : ndarray of shape (n_groups,)
        In nats; infinite if no bound exists.
    n_iter : ndarray of shape (n_groups,)
    interval : ndarray of shape (n_groups, n_classes, 2) or None
    standard_error : ndarray of shape (n_groups, n_classes) or None
    confidence_level : float or None
    """

    groups: Labels
    n: Indices
    priors: Vector
    weight: Vector
    pooling: float
    whole: PriorEstimate
    pooled: PriorEstimate
    status: NDArray[Any]
    gap: Vector
    n_iter: Indices
    interval: Vector | None = None
    standard_error: Vector | None = None
    confidence_level: float | None = None

    @property
    def classes(self) -> Labels:
        """Class names, in the order of the columns."""
        return self.whole.classes

    @property
    def method(self) -> str:
        """Name of the estimator."""
        return self.whole.method

    @property
    def source_priors(self) -> Any:
        """Priors the classifier was trained under; None where nothing is known of them."""
        return self.pooled.source_priors

    @property
    def ratio(self) -> Any:
        """Importance weights: priors / source_priors, shape (n_groups, n_classes), or None."""
        if self.source_priors is None:
            return None
        return prior_ratio(self.priors, np.broadcast_to(self.source_priors, self.priors.shape))

    @property
    def distance(self) -> Vector:
        """Total variation distance of each group's priors from the pooled ones."""
        return total_variation(self.priors, self.pooled.priors)

    def __len__(self) -> int:
        return self.groups.size

    def __iter__(self) -> Iterator[Any]:
        return iter(self.groups.tolist())

    def __getitem__(self, group: Any) -> PriorEstimate:
        g = int(match_groups(read_groups([group]), self.groups)[0])
        solved = Solutions(self.priors, self.status, self.gap, self.n_iter)
        alone = replace(solution_as_estimate(self.pooled, solved, g), n_target=int(self.n[g]))
        if self.interval is None or self.standard_error is None:
            return alone
        return replace(
            alone,
            interval=self.interval[g],
            standard_error=self.standard_error[g],
            confidence_level=self.confidence_level,
            interval_method="asymptotic",
            estimand="population",
            simultaneous=False,
        )

    def adapt(
        self,
        y_proba: ArrayLike,
        groups: ArrayLike,
        *,
        from_logits: bool = False,
        unknown: Literal["refuse", "pooled"] = "refuse",
    ) -> NDArray[Any]:
        """Adapt each row to the priors of its group.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities.
        groups : array-like of shape (n_samples,)
            Group of each row.
        from_logits
            As in `PriorEstimate.adapt`.
        unknown : {"refuse", "pooled"}, default="refuse"
            What to do with a group that has no estimate: raise, or adapt to the pooled priors.

        Returns
        -------
        ndarray of the shape of `y_proba`, or a frame for a frame
            Adapted probabilities.
        """
        check_choice(unknown, ("refuse", "pooled"), "unknown")
        self.pooled._require_source()
        _, groups = column_of(y_proba, groups, "groups")  # adapted frames keep the column
        predictions = check_outputs(y_proba, from_proba=not from_logits, classes=self.classes)
        labels = read_groups(groups, predictions.shape[0])
        return adapt_predictions(
            predictions,
            self.classes,
            self.source_priors,
            np.vstack([self.ratio, self.pooled.ratio]) ** self.pooled.strength,
            from_logits=from_logits,
            calibration=self.pooled.calibrator,
            origin=self.pooled.source_priors_from,
            codes=match_groups(labels, self.groups, refuse=unknown == "refuse"),
        )

    def to_frame(self, *, wide: bool = False, backend: Backend = "pandas") -> Any:
        """Return a frame of the named library.

        Parameters
        ----------
        wide : bool, default=False
            One row per group with a column `prior:NAME` per class; otherwise one row per group and
            class.
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
        """
        if wide:
            return make_frame(wide_columns(self), backend)
        G, K = self.priors.shape
        columns: dict[str, Any] = {
            "group": np.repeat(self.groups, K),
            "class": np.tile(self.classes, G),
            "n": np.repeat(self.n, K),
            "weight": np.repeat(self.weight, K),
        }
        if self.source_priors is not None:
            columns["source_prior"] = np.tile(self.source_priors, G)
        columns["prior"] = self.priors.ravel()
        if self.source_priors is not None:
            columns["ratio"] = self.ratio.ravel()
        if self.interval is not None:
            lower, upper = self.interval[..., 0], self.interval[..., 1]
            columns |= {"lower": lower.ravel(), "upper": upper.ravel()}
        return make_frame(columns, backend)

    def __repr__(self) -> str:
        """Show the groups that moved, and how far groups were pooled."""
        G, moved = len(self), self.distance
        away = self.priors - self.pooled.priors
        farthest = np.abs(away).argmax(axis=1)
        rows = [("group", "rows", "weight", "moved", "most")]
        for g in movers(moved, MAX_ROWS) if G > MAX_ROWS else range(G):
            most = f"{self.classes[farthest[g]]} {100 * away[g, farthest[g]]:+.1f}"
            sizes = f"{self.n[g]}", f"{self.weight[g]:.2f}", f"{moved[g]:.3f}"
            rows.append((str(self.groups[g]), *sizes, most))
        kinds, counts = np.unique(self.status, return_counts=True)
        each = zip(kinds.tolist(), counts, strict=True)
        statuses = ", ".join(f"{n} {kind}" for kind, n in each)
        lines = [
            f"GroupEstimates(method={self.method!r}, n_groups={G}, "
            f"n_classes={self.classes.size}, n_target={int(self.n.sum())})",
            *text_table(rows, right=(1, 2, 3), least=6),
            *([f"... the {MAX_ROWS} of {G} groups that moved most"] if G > MAX_ROWS else []),
            f"{pooling_in_words(self.pooling)}; moved: total variation from the pooled priors",
            f"{statuses}; source priors: {self.pooled.source_priors_from}",
            *(f"caution: {caution}" for caution in self.whole.cautions),
        ]
        return "\n  ".join(lines)


def solution_as_estimate(like: PriorEstimate, solved: Solutions, at: int = 0) -> PriorEstimate:
    """Return one of several solutions as an estimate like another one."""
    gap = float(solved.gap[at])
    return replace(
        like,
        priors=solved.value[at],
        status=cast("Status", str(solved.status[at])),
        gap=None if np.isinf(gap) else gap,
        n_iter=int(solved.n_iter[at]),
        objective=None,
        raw=None,
    )


def wide_columns(found: GroupEstimates) -> dict[str, Any]:
    """Return columns with one entry per group; `prior:NAME` is that of a class."""
    columns: dict[str, Any] = {
        "group": found.groups,
        "n": found.n,
        "weight": found.weight,
        "distance": found.distance,
        "status": found.status,
        "gap": found.gap,
    }
    parts = {"prior": found.priors}
    if found.interval is not None:
        parts |= {"lower": found.interval[..., 0], "upper": found.interval[..., 1]}
    for what, values in parts.items():
        names = (f"{what}:{name}" for name in found.classes.tolist())
        columns |= dict(zip(names, values.T, strict=True))
    return columns


def pooling_in_words(pooling: float) -> str:
    """Say in words how far groups were pooled."""
    if pooling == 0:
        return "not pooled"
    if np.isinf(pooling):
        return "pooled completely: groups do not differ beyond noise"
    rows = f"{pooling:,.0f}" if pooling >= 100 else f"{pooling:.3g}"
    return f"pooled as if {rows} more rows of every group followed the pooled priors"


def estimate_groups(
    estimator: PriorEstimator,
    y_proba: Any = None,
    groups: ArrayLike | None = None,
    *,
    y_pred: ArrayLike | None = None,
    pooling: Pooling = "auto",
    confidence_level: float | None = None,
) -> GroupEstimates:
    r"""Estimate the target priors of each group: site, week, device.

    Small groups are pooled towards the others as far as the marginal likelihood of all groups
    supports: groups that do not differ beyond noise get one estimate; large groups that do differ
    keep their own. See `priorshift.groups` for the formulas.

    Parameters
    ----------
    estimator : PriorEstimator
        Fitted: a method with a confusion matrix (CM, SCM, CM-L, SCM-L, CM-M, SCM-M, the shrunk
        SCM-L, BBSE, BBSE-S), EM, MAP, or Auto, which calibrates as for the whole target and then
        uses soft decisions. Any other method estimates each group by itself with ``pooling=None``.
    y_proba : array-like of shape (n_samples, n_classes) or GroupCounts
        Predicted probabilities on the target. Methods with a confusion matrix also accept data that
        are read in blocks (files, sparse matrices, Dask arrays), and counts of their decisions,
        which you can make in parts anywhere.
    groups : array-like of shape (n_samples,)
        Group of each row: text, numbers or dates. None if you pass counts.
    y_pred : array-like of shape (n_samples,), optional
        Decisions on the target instead of `y_proba`, for the methods of hard decisions.
    pooling : "auto", None or float, default="auto"
        "auto" pools by marginal likelihood; None estimates every group by itself; a number is how
        many rows the pooled priors count for in every group.
    confidence_level : float, optional
        For example 0.95, to give every prior an interval. Not for EM and MAP.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_val = np.repeat([0, 1], 50)
    >>> decisions = np.repeat([0, 1, 0, 1], [40, 10, 10, 40])
    >>> cm = ps.CML().fit(np.eye(2)[decisions], y_val)
    >>> target = np.eye(2)[np.repeat([0, 1, 0, 1, 0, 1], [700, 300, 600, 400, 2, 1])]
    >>> site = np.repeat(["north", "south", "west"], [1000, 1000, 3])
    >>> found = ps.estimate_groups(cm, target, site)
    >>> found.priors.round(2)
    array([[0.83, 0.17],
           [0.67, 0.33],
           [0.75, 0.25]])
    >>> found.weight.round(2)
    array([0.95, 0.95, 0.06])
    >>> found["north"].ratio.round(2)
    array([1.66, 0.34])
    """
    if not isinstance(estimator, PriorEstimator):
        raise TypeError(f"estimator must be a fitted PriorEstimator; got {brief(estimator)}.")
    check_is_fitted(estimator)
    if pooling is not None and not (isinstance(pooling, str) and pooling == "auto"):
        number = isinstance(pooling, Real) and not isinstance(pooling, bool)
        if not number or not float(pooling) >= 0:
            raise ValueError(
                "pooling must be 'auto', None, or a number of rows, at least 0, that the pooled "
                f"priors count for; got {brief(pooling)}."
            )
        pooling = float(pooling)
    request = None
    if confidence_level is not None:
        request = IntervalRequest(confidence_level, method="asymptotic")
    if y_pred is not None:
        require_decisions(estimator, y_pred, y_proba)
        y_proba = as_decisions(y_pred, estimator.classes_)
    if isinstance(y_proba, GroupCounts):
        if groups is not None:
            raise ValueError("counts hold their groups; leave out the argument.")
        if not estimator.counts_suffice:
            raise ValueError(
                f"{type(estimator).__name__} needs the rows of the target, which counts do not "
                "keep; pass y_proba and groups, or use a method such as SCM-L."
            )
        _require_batch(estimator)
        return _from_counts(estimator, y_proba, pooling, request)
    if groups is None:
        raise ValueError("groups is missing; pass the group of each row.")
    y_proba, groups = column_of(y_proba, groups, "groups")
    # methods with a confusion matrix read rows in blocks
    read = read_proba(y_proba, estimator.classes_, tables=estimator.counts_suffice)
    rows = read.values
    if read.decided is None and not estimator._evidence.decisions_only:
        source, origin = estimator._denominator, estimator.source_priors_from_
        check_source_mass(source, rows, estimator.classes_, origin=origin)
    names, codes = encode_groups(read_groups(groups, rows.shape[0]))
    whole, method = None, estimator
    if estimator.batch == "calibrated":  # by soft decisions of outputs calibrated for all rows
        whole = estimator.estimate(Predictions.from_checked(rows))
        method, calibrator = estimator._soft_decisions()
        rows = calibrator.apply(rows)
    in_batch = method.batch is not None
    if method.counts_suffice:
        in_batch = in_batch and bool(method.confusion_.seen.all())
    if not in_batch and not pooling and request is None:
        found = _from_each(method, rows, names, codes)
    elif method.batch == "posteriors":
        if request is not None:
            raise ValueError(
                f"{type(method).__name__} has no intervals by group; use a method with a confusion "
                f"matrix such as SCM-L, or leave out {argument('confidence_level')}."
            )
        found = _from_posteriors(method, rows, names, codes, pooling)
    else:
        _require_batch(method)  # before the work
        counts = count_groups(rows, names, codes, method.confusion_.decision)
        found = _from_counts(method, counts, pooling, request)
    if whole is None:
        return found
    # the method's caution is about the whole target; for groups that differ, pooling plays its part
    if np.isfinite(found.pooling):
        pooled = replace(
            found.pooled,
            method=whole.method,
            source_priors_from=whole.source_priors_from,
            calibrator=calibrator,
            decision=whole.decision,
        )
        return replace(found, whole=whole, pooled=pooled)
    return replace(
        found,
        priors=np.tile(whole.priors, (names.size, 1)),
        whole=whole,
        pooled=whole,
        status=np.full(names.size, whole.status),
        gap=np.full(names.size, np.inf),
    )


def _from_counts(
    estimator: PriorEstimator,
    counts: GroupCounts,
    pooling: Pooling,
    request: IntervalRequest | None,
) -> GroupEstimates:
    """Estimate the priors of groups from counts of their decisions."""
    decision, K = estimator.confusion_.decision, estimator.classes_.size
    if counts.decision != decision or counts.counts.shape[1] != K:
        raise ValueError(
            f"{type(estimator).__name__} needs counts of {decision} decisions on {K} classes; got "
            f"{counts.decision} decisions on {counts.counts.shape[1]}. Count with "
            f"GroupCounts.from_arrays(y_proba, groups, decision={decision!r})."
        )
    N, decisions = int(counts.n_rows.sum()), counts.counts
    if not N:
        raise ValueError("no group has a row; there is nothing to estimate from.")
    whole = estimator.estimate_counts(DecisionCounts(decisions.sum(axis=0), decision, N))
    informative = estimator._informative(decisions)
    pool, pooled, solved = None, whole, None
    if pooling:
        pool = Pool(pooling, counts, estimator._columns, whole.priors)
    if pool is not None and pool.variance > 0:
        middle = estimator._priors_of_groups(pool.decisions(pool.centre)[None] * N)
        pooled = solution_as_estimate(whole, middle)
        # a hyper-prior acts on each group as on all rows: pooling is what protects small groups
        mass: Any = N if (estimator._hyper_prior != 1).any() else counts.n_rows[:, None]
        decisions = mass * pool.decisions(pool.theta + pool.borrowed * (pool.centre - pool.theta))
    if pool is None or pool.variance > 0:
        solved = estimator._priors_of_groups(decisions[informative])
    found = _gather(counts.groups, counts.n_rows, solved, informative, pool, whole, pooled)
    if request is None:
        return found
    interval, error = _intervals(estimator, found.priors, counts.n_rows, pool, request)
    level = request.confidence_level
    return replace(found, interval=interval, standard_error=error, confidence_level=level)


def _from_posteriors(
    estimator: PriorEstimator, y_proba: Floats, names: Labels, codes: Indices, pooling: Pooling
) -> GroupEstimates:
    """Estimate the priors of groups from the posteriors of their rows."""
    _require_certificate(estimator)
    params: Any = estimator
    whole, source = estimator._estimate(y_proba), estimator.source_priors_
    scale = prior_ratio(np.ones_like(source), source)
    possible = y_proba @ scale.astype(y_proba.dtype) > 0  # some priors explain these rows
    informative = np.bincount(codes, possible, names.size) > 0
    pool, pooled, excess, solved = None, whole, estimator._hyper_prior - 1, None
    if pooling:
        pool = _pool_posteriors(pooling, y_proba, names, codes, scale, whole.priors)
    if pool is not None and pool.variance > 0:
        centre = np.maximum(whole.priors + pool.to_priors @ pool.centre, 0)
        pooled = solution_as_estimate(whole, Solutions.direct(centre[None] / centre.sum()))
        excess = pool.strength * pooled.priors
    if pool is None or pool.variance > 0:
        solved = maximise_by_group(
            y_proba,
            codes,
            np.flatnonzero(informative),
            scale=scale,
            excess=excess,
            start=pooled.priors,
            tol=params.tol,
            max_iter=params.max_iter,
        )
    sizes = np.bincount(codes, minlength=names.size)
    return _gather(names, sizes, solved, informative, pool, whole, pooled)


def _pool_posteriors(
    pooling: float | Literal["auto"],
    y_proba: Floats,
    names: Labels,
    codes: Indices,
    scale: Vector,
    priors: Vector,
) -> Pool:
    """Choose how far to pool by the posteriors of rows under the priors of all of them."""
    n, K = y_proba.shape
    around = (n * priors + 1 / K) / (n + 1)  # every class might occur in one more row
    counts, second = np.zeros((names.size, K)), np.zeros((K, K))
    for part in row_blocks(n, K, 2**23):  # bytes of posteriors at once
        block = y_proba[part] * (scale * around)
        total = block.sum(axis=1, keepdims=True)
        block = np.divide(block, total, out=np.tile(around, (block.shape[0], 1)), where=total > 0)
        of_group, products = _count_block(codes, names.size, "soft", block, part)
        counts += of_group
        second += products
    R = second / n / around
    lost = R.sum(axis=0) <= 0  # no row gives the class any probability: as if always recognised
    R[lost, lost] = 1.0
    R /= R.sum(axis=0)
    sizes = np.bincount(codes, minlength=names.size)
    return Pool(pooling, GroupCounts(names, "soft", sizes, counts, second), R, around)


def _from_each(
    estimator: PriorEstimator, rows: Any, names: Labels, codes: Indices
) -> GroupEstimates:
    """Estimate every group by itself, as a target of its own.

    This is slow. It is the only way for a method without a batch solver, or if validation lacks a
    class: counts do not determine its share.
    """
    if isinstance(rows, Table):
        raise ValueError(
            f"{estimator!r} estimates each group by itself, from its rows in memory; pass an "
            "array, or use a method such as SCM-L, which counts them."
        )
    whole = estimator._estimate(rows)
    sizes = np.bincount(codes, minlength=names.size)
    rows_of = np.split(np.argsort(codes, kind="stable"), np.cumsum(sizes)[:-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the estimate on all rows has warned already
        alone = []
        for group, own in zip(names, rows_of, strict=True):
            try:
                alone.append(estimator._estimate(rows[own]))
            except ValueError as error:
                raise ValueError(f"group {group.item()!r}: {error}") from error
    solved = Solutions(
        np.array([one.priors for one in alone]),
        np.array([one.status for one in alone]),
        np.array([np.inf if one.gap is None else one.gap for one in alone]),
        np.array([one.n_iter for one in alone], dtype=np.intp),
    )
    return _gather(names, sizes, solved, np.ones(names.size, bool), None, whole, whole)


def _gather(
    groups: Labels,
    n: Indices,
    solved: Solutions | None,
    informative: Mask,
    pool: Pool | None,
    whole: PriorEstimate,
    pooled: PriorEstimate,
) -> GroupEstimates:
    """Put together what was solved for the informative groups; None: all are like `whole`.

    The other groups get the pooled priors, with a warning.
    """
    G = groups.size
    every = Solutions.direct(np.tile(pooled.priors, (G, 1)))
    status = np.full(G, "direct", "U16")
    if solved is None:
        status[:], every.n_iter[:] = whole.status, whole.n_iter
        every.gap[:] = np.inf if whole.gap is None else whole.gap
    else:
        every.value[informative], status[informative] = solved.value, solved.status
        every.gap[informative], every.n_iter[informative] = solved.gap, solved.n_iter
    if not informative.all():
        empty = groups[~informative].tolist()
        warn_user(
            f"{len(empty)} groups have no row to learn from and get the pooled priors: "
            f"{some(empty)}.",
            PriorShiftWarning,
        )
    short = status == "not_converged"
    if short.any():
        warn_user(
            f"{whole.method} is not certified in {np.count_nonzero(short)} of {G} groups "
            f"({some(groups[short].tolist())}), by a gap of up to {every.gap[short].max():.3g}; "
            "raise max_iter or tol.",
            ConvergenceWarning,
        )
    return GroupEstimates(
        groups=groups,
        n=n,
        priors=every.value,
        weight=np.where(informative, 1.0 if pool is None else pool.weights, 0.0),
        pooling=0.0 if pool is None else pool.strength,
        whole=whole,
        pooled=pooled,
        status=status,
        gap=every.gap,
        n_iter=every.n_iter,
    )


def _intervals(
    estimator: PriorEstimator,
    priors: Vector,
    mass: Indices,
    pool: Pool | None,
    request: IntervalRequest,
) -> tuple[Vector, Vector]:
    """Return the intervals, shape (G, K, 2), and standard errors, shape (G, K)."""
    votes = votes_of_validation(estimator)
    within, own = votes.within, np.diagonal(votes.within)
    # how many rows each prior is known by: those of the group, and what pooling adds
    n = np.tile(mass[:, None], (1, priors.shape[1]))
    if pool is not None:
        alone, left = (pool.to_priors**2).sum(axis=1), pool.prior_variance()
        n = np.divide(alone, left, out=np.full_like(left, mass.sum()), where=left > 0)
    n = np.maximum(n, 1e-9)  # a group without rows has bounds of 0 and 1
    by_others = (priors @ within - priors * own) / n
    by_validation = (priors**2 / votes.n_validation) @ within
    error = np.sqrt((priors * (1 - priors) + priors * own) / n + by_others + by_validation)
    z = request.z(priors.shape[1])
    lower, upper = score_bounds(priors, z, by_others + by_validation, (1 + own) / n, -1 / n)
    lower = np.minimum(lower, 0.5 * (lower + priors - z * error))
    bounds = np.stack([np.minimum(lower, priors), np.maximum(upper, priors)], axis=-1)
    return np.clip(bounds, 0.0, 1.0), error


def _require_batch(estimator: PriorEstimator) -> None:
    """Refuse a fitted method that cannot solve for the counts of many groups."""
    if estimator.batch != "counts":
        raise ValueError(
            f"{estimator!r} cannot pool groups, nor use intervals or counts for them; use "
            "a method such as SCM-L, CM-L, SCM, BBSE, EM, MAP or Auto, or estimate each group by "
            f"itself: {argument('pooling=none', 'pooling=None')}, with rows in memory."
        )
    seen = estimator.confusion_.seen
    if not seen.all():
        raise ValueError(
            f"validation has no sample of class {some(estimator.classes_[~seen].tolist())}, so a "
            "confusion matrix cannot tell its share in a group, nor how far to pool; add samples, "
            "pass rows in memory with pooling=None and no confidence_level, which "
            f"estimates each group by itself, or use EM or MAP with {argument('source_priors')}."
        )
    _require_certificate(estimator)


def _require_certificate(estimator: PriorEstimator) -> None:
    """Refuse parameters under which nothing can be certified."""
    if getattr(estimator, "solver", "certified") != "certified":
        raise ValueError("groups are solved to a certificate; use solver='certified'.")
    if (estimator._hyper_prior < 1).any():
        raise ValueError("groups need alpha of at least 1: below 1, nothing can be certified.")
