"""GroupEstimates: one estimate per group, and how to use, tabulate and print them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priorshift._results import Backend, FrozenArrays, make_frame
from priorshift._typing import Indices, Labels, Mask, Vector
from priorshift.adapt import prior_ratio, reweight, total_variation
from priorshift.border import (
    check_choice,
    check_fraction,
    check_outputs,
    check_source_mass,
    column_of,
    in_class_order,
    like_input,
    some,
)
from priorshift.estimators import PriorEstimate
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning, warn_user
from priorshift.groups._counts import match_groups, match_or_pool, read_groups
from priorshift.groups._pooling import Pool
from priorshift.solvers import Solutions, Status
from priorshift.text import html_paragraphs, html_table, movers, text_table

MAX_ROWS = 10
"""Groups that a repr shows; if there are more, those that moved most."""

HEADER = ("group", "rows", "weight", "moved", "most")


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

    @classmethod
    def of(
        cls,
        groups: Labels,
        n: Indices,
        solved: Solutions | None,
        informative: Mask,
        pool: Pool,
        whole: PriorEstimate,
        pooled: PriorEstimate,
    ) -> "GroupEstimates":
        """Put together what was solved for the informative groups; None: all are like `whole`.

        The other groups get the pooled priors, with a warning.
        """
        if solved is None:
            every = _repeated(whole, groups.size)
        else:
            every = _completed(solved, informative, pooled.priors)
        _warn_of_the_rest(whole.method, groups, every, informative)
        return cls(
            groups=groups,
            n=n,
            priors=every.value,
            weight=np.where(informative, pool.weights(groups.size), 0.0),
            pooling=pool.strength,
            whole=whole,
            pooled=pooled,
            status=every.status,
            gap=every.gap,
            n_iter=every.n_iter,
        )

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

    def __contains__(self, group: object) -> bool:
        return group in self.groups.tolist()

    def __getitem__(self, group: Any) -> PriorEstimate:
        g = int(match_groups(read_groups([group]), self.groups)[0])
        solved = Solutions(self.priors, self.status, self.gap, self.n_iter)
        has_interval = self.interval is not None
        return replace(
            solution_as_estimate(self.pooled, solved, g),
            n_target=int(self.n[g]),
            interval=None if self.interval is None else self.interval[g],
            standard_error=None if self.standard_error is None else self.standard_error[g],
            confidence_level=self.confidence_level,
            interval_method="asymptotic" if has_interval else None,
            estimand="population" if has_interval else None,
            simultaneous=False if has_interval else None,
        )

    def adapt(
        self,
        y_proba: ArrayLike,
        groups: ArrayLike,
        *,
        from_logits: bool = False,
        strength: float = 1.0,
        unknown: Literal["refuse", "pooled"] = "refuse",
    ) -> NDArray[Any]:
        """Adapt each row to the priors of its group.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities.
        groups : array-like of shape (n_samples,)
            Group of each row.
        from_logits, strength
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
        predictions = check_outputs(
            y_proba, from_proba=not from_logits, name="y_proba", classes=self.classes
        )
        values = in_class_order(predictions, self.classes)
        check_source_mass(
            self.source_priors,
            values,
            self.classes,
            from_logits=from_logits,
            origin=self.pooled.source_priors_from,
        )
        labels = read_groups(groups, values.shape[0])
        codes = (match_or_pool if unknown == "pooled" else match_groups)(labels, self.groups)
        if self.pooled.calibrator is not None:
            values = self.pooled.calibrator.apply(values, from_logits=from_logits)
            from_logits = False
        power = self.pooled.strength * check_fraction(strength, "strength")
        ratios = np.vstack([self.ratio, self.pooled.ratio]) ** power
        adapted = reweight(values, ratios, from_logits=from_logits, codes=codes)
        return like_input(predictions, adapted, self.classes)

    def to_frame(self, *, wide: bool = False, backend: Backend = "pandas") -> Any:
        """Return a frame of the named library.

        Parameters
        ----------
        wide : bool, default=False
            One row per group with a column `prior:NAME` per class; otherwise one row per group and
            class.
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
        """
        return make_frame(wide_columns(self) if wide else _long_columns(self), backend)

    def movers(self, most: int = MAX_ROWS) -> Indices:
        """Return the positions of the groups that are farthest from the pooled priors."""
        return movers(self.distance, most)

    def __repr__(self) -> str:
        """Show the groups that moved, and how far groups were pooled."""
        return _as_text(self)

    def _repr_html_(self) -> str:
        return _as_html(self)


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


def _repeated(whole: PriorEstimate, n_groups: int) -> Solutions:
    """Give every group the priors of all rows, with the same status and gap."""
    return Solutions(
        np.tile(whole.priors, (n_groups, 1)),
        np.full(n_groups, whole.status),
        np.full(n_groups, np.inf if whole.gap is None else whole.gap),
        np.full(n_groups, whole.n_iter, dtype=np.intp),
    )


def _completed(solved: Solutions, informative: Mask, otherwise: Vector) -> Solutions:
    """Give the groups about which nothing is known the pooled priors."""
    every = Solutions.direct(np.tile(otherwise, (informative.size, 1)))
    status = every.status.astype("U16")
    every.value[informative], every.gap[informative] = solved.value, solved.gap
    every.n_iter[informative], status[informative] = solved.n_iter, solved.status
    return replace(every, status=status)


def _warn_of_the_rest(name: str, groups: Labels, solved: Solutions, informative: Mask) -> None:
    """Warn once of groups without information, and once of those that are not certified."""
    if not informative.all():
        empty = groups[~informative].tolist()
        warn_user(
            f"{len(empty)} groups have no row to learn from and get the pooled priors: "
            f"{some(empty)}.",
            PriorShiftWarning,
        )
    short = solved.status == "not_converged"
    if short.any():
        warn_user(
            f"{name} is not certified in {np.count_nonzero(short)} of {groups.size} groups "
            f"({some(groups[short].tolist())}), by a gap of up to {solved.gap[short].max():.3g}; "
            "raise max_iter or tol.",
            ConvergenceWarning,
        )


def _long_columns(found: GroupEstimates) -> dict[str, Any]:
    """Return columns with one entry per group and class."""
    G, K = found.priors.shape
    columns: dict[str, Any] = {
        "group": np.repeat(found.groups, K),
        "class": np.tile(found.classes, G),
        "n": np.repeat(found.n, K),
        "weight": np.repeat(found.weight, K),
    }
    if found.source_priors is not None:
        columns["source_prior"] = np.tile(found.source_priors, G)
    columns["prior"] = found.priors.ravel()
    if found.source_priors is not None:
        columns["ratio"] = found.ratio.ravel()
    if found.interval is not None:
        lower, upper = found.interval[..., 0], found.interval[..., 1]
        columns |= {"lower": lower.ravel(), "upper": upper.ravel()}
    return columns


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


def _as_text(found: GroupEstimates) -> str:
    """Show the groups that moved, and how far groups were pooled."""
    lines = text_table([HEADER, *_rows(found)], right=(1, 2, 3), least=6)
    return "\n".join([_head(found), *(f"  {line}" for line in (*lines, *_notes(found)))])


def _as_html(found: GroupEstimates) -> str:
    """Show the same in a notebook."""
    table, notes = html_table(_rows(found), HEADER), html_paragraphs(_notes(found))
    return f"<div><strong>{escape(_head(found))}</strong>{table}{notes}</div>"


def _head(found: GroupEstimates) -> str:
    return (
        f"GroupEstimates(method={found.method!r}, n_groups={len(found)}, "
        f"n_classes={found.classes.size}, n_target={int(found.n.sum())})"
    )


def _rows(found: GroupEstimates) -> list[tuple[str, str, str, str, str]]:
    away = found.priors - found.pooled.priors
    shown = found.movers() if len(found) > MAX_ROWS else np.arange(len(found))
    farthest = np.abs(away).argmax(axis=1)
    return [
        (
            str(found.groups[g]),
            str(found.n[g]),
            f"{found.weight[g]:.2f}",
            f"{found.distance[g]:.3f}",
            _most(found.classes[farthest[g]], 100 * away[g, farthest[g]]),
        )
        for g in shown
    ]


def _most(name: Any, points: float) -> str:
    """Name the class that moved most, unless it did not move by as much as is shown."""
    moved = f"{points:+.1f}"
    return "no class changed" if float(moved) == 0 else f"{name} {moved}"


def _notes(found: GroupEstimates) -> list[str]:
    notes = [f"{pooling_in_words(found.pooling)}; moved: total variation from the pooled priors"]
    if len(found) > MAX_ROWS:
        notes.insert(0, f"... the {MAX_ROWS} of {len(found)} groups that moved most")
    kinds, counts = np.unique(found.status, return_counts=True)
    said = ", ".join(f"{n} {kind}" for kind, n in zip(kinds.tolist(), counts, strict=True))
    notes.append(f"{said}; source priors: {found.pooled.source_priors_from}")
    return [*notes, *(f"caution: {caution}" for caution in found.whole.cautions)]


def pooling_in_words(pooling: float) -> str:
    """Say in words how far groups were pooled."""
    if pooling == 0:
        return "not pooled"
    if np.isinf(pooling):
        return "pooled completely: groups do not differ beyond noise"
    rows = f"{pooling:,.0f}" if pooling >= 100 else f"{pooling:.3g}"
    return f"pooled as if {rows} more rows of every group followed the pooled priors"
