"""GroupEstimates: one estimate a group, and how to use them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priorshift._frames import Backend, make_frame
from priorshift._frozen import FrozenArrays
from priorshift._typing import Indices, Labels, Vector
from priorshift._validation import (
    check_choice,
    check_fraction,
    check_outputs,
    check_source_mass,
    in_class_order,
)
from priorshift.adaptation import like_input, prior_ratio, reweight
from priorshift.estimators import PriorEstimate
from priorshift.groups._adapt import codes_of, reweight_by_group
from priorshift.groups._labels import match_groups, read_groups
from priorshift.groups._views import MAX_ROWS, as_html, as_text, long_columns, wide_columns
from priorshift.solvers import Status


@dataclass(frozen=True, eq=False, repr=False)
class GroupEstimates(FrozenArrays):
    """Estimated target priors of each group; frozen, picklable, without sample rows.

    `found["site 3"]` is the `PriorEstimate` of one group, by its label.

    Attributes
    ----------
    groups : ndarray of shape (n_groups,)
        Group labels, sorted, in the order of every array here.
    n : ndarray of shape (n_groups,)
        Rows of each group.
    priors : ndarray of shape (n_groups, n_classes)
        Estimated target priors.
    weight : ndarray of shape (n_groups,)
        How far each group keeps its own: 1 is its own rows alone, 0 the pooled priors. It is the
        share of the spread between groups' priors that the group's own rows explain.
    pooling : float
        Rows that the pooled priors count for, as a Dirichlet distribution with this total: 0 is no
        pooling, infinite is one estimate for all.
    whole : PriorEstimate
        Of all rows together.
    pooled : PriorEstimate
        What small groups are drawn to: the mean of groups, each by how well it is known. It is
        `whole` where groups are all alike, or not pooled.
    status : ndarray of shape (n_groups,)
        "certified", "direct" or "not_converged", as in `PriorEstimate`.
    gap : ndarray of shape (n_groups,)
        In nats; infinite where no bound exists.
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
    def source_priors(self) -> Vector:
        """Priors the classifier was trained under: the denominator of the ratio."""
        return self.pooled.source_priors

    @property
    def ratio(self) -> Vector:
        """Importance weights: priors / source_priors, shape (n_groups, n_classes)."""
        source = np.broadcast_to(self.source_priors, self.priors.shape)
        return prior_ratio(self.priors, source)

    @property
    def distance(self) -> Vector:
        """Total variation distance of each group's priors from the pooled ones."""
        return 0.5 * np.abs(self.priors - self.pooled.priors).sum(axis=1)

    def __len__(self) -> int:
        return self.groups.size

    def __iter__(self) -> Iterator[Any]:
        return iter(self.groups.tolist())

    def __contains__(self, group: object) -> bool:
        return group in self.groups.tolist()

    def __getitem__(self, group: Any) -> PriorEstimate:
        g = int(match_groups(read_groups([group]), self.groups)[0])
        gap = float(self.gap[g])
        return replace(
            self.pooled,
            priors=self.priors[g],
            status=cast("Status", str(self.status[g])),
            gap=None if np.isinf(gap) else gap,
            n_iter=int(self.n_iter[g]),
            n_target=int(self.n[g]),
            interval=None if self.interval is None else self.interval[g],
            standard_error=None if self.standard_error is None else self.standard_error[g],
            confidence_level=self.confidence_level,
            interval_method=None if self.interval is None else "asymptotic",
            estimand=None if self.interval is None else "population",
            simultaneous=None if self.interval is None else False,
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
        from_logits : bool, default=False
            Whether `y_proba` holds logits or log-probabilities instead.
        strength : float in [0, 1], default=1
            How far to go: see `PriorEstimate.adapt`.
        unknown : {"refuse", "pooled"}, default="refuse"
            What to do with a group that has no estimate: raise, or adapt to the pooled priors.

        Returns
        -------
        ndarray of the shape of `y_proba`
            Adapted probabilities.
        """
        check_choice(unknown, ("refuse", "pooled"), "unknown")
        predictions = check_outputs(y_proba, from_proba=not from_logits, name="y_proba")
        values = in_class_order(predictions, self.classes)
        check_source_mass(
            self.source_priors,
            values,
            self.classes,
            from_logits=from_logits,
            origin=self.pooled.source_priors_from,
        )
        labels = read_groups(groups, values.shape[0])
        codes = codes_of(labels, self.groups, or_pooled=unknown == "pooled")
        if self.pooled.calibrator is not None:
            values = self.pooled.calibrator.apply(values, from_logits=from_logits)
        elif from_logits:
            values = reweight(values, np.ones(self.classes.size), from_logits=True)
        power = self.pooled.strength * check_fraction(strength, "strength")
        ratios = np.vstack([self.ratio, self.pooled.ratio]) ** power
        return like_input(predictions, reweight_by_group(values, ratios, codes))

    def to_frame(self, *, wide: bool = False, backend: Backend = "pandas") -> Any:
        """Return a frame of the named library.

        Parameters
        ----------
        wide : bool, default=False
            One row a group, a column `prior:NAME` a class; else one row a group and class.
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
        """
        return make_frame(wide_columns(self) if wide else long_columns(self), backend)

    def movers(self, most: int = MAX_ROWS) -> Indices:
        """Return the positions of the groups that are farthest from the pooled priors."""
        return np.argsort(-self.distance, kind="stable")[:most]

    def __repr__(self) -> str:
        """Show the groups that moved, and how far groups were pooled."""
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)
