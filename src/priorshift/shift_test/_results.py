"""ShiftTest and AssumptionTest: what the tests found, in numbers and in words."""

from dataclasses import dataclass, fields
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift._frozen import FrozenArrays
from priorshift._typing import Vector
from priorshift.shift_test._words import assumption_verdict, shift_verdict


class _Finding(FrozenArrays):
    """What both tests share: a verdict, and plain values on demand."""

    @property
    def verdict(self) -> str:
        """The finding as a sentence."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON; vectors become mappings from class."""
        named: dict[str, Any] = {}
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, _Finding):
                value = value.to_dict()
            elif field.name == "classes":
                value = value.tolist()
            elif isinstance(value, np.ndarray):
                value = dict(zip(self.classes.tolist(), value.tolist(), strict=True))  # type: ignore[attr-defined]
            elif isinstance(value, tuple):
                value = list(value)
            named[field.name] = value
        named["rejected"] = self.rejected  # type: ignore[attr-defined]
        named["sentence"] = self.verdict
        return named

    def _rows(self) -> list[tuple[str, str]]:
        raise NotImplementedError

    def __repr__(self) -> str:
        """Show the verdict, then the numbers."""
        rows = self._rows()
        width = max(len(name) for name, _ in rows)
        lines = [f"  {name:<{width}}  {value}" for name, value in rows]
        return "\n".join([f"{type(self).__name__}: {self.verdict}", *lines])

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>"
            for name, value in self._rows()
        )
        return (
            f"<div><strong>{type(self).__name__}</strong> {escape(self.verdict)}"
            f"<table><tbody>{cells}</tbody></table></div>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class AssumptionTest(_Finding):
    """Whether a change of priors alone explains the target; frozen and picklable.

    Attributes
    ----------
    statistic : float
        Weighted squared distance between the cells' shares in the target and on validation
        re-weighted to the estimated priors.
    p_value : float or None
        None where there are no more cells than classes: then every target can be explained.
    degrees_of_freedom : int
        Cells beyond the number of classes.
    alpha : float
        Level of the test.
    n_cells : int
        Cells of predicted class and confidence.
    n_val, n_target : int
        Rows of validation and target.
    n_resamples : int
        Draws of the null distribution.
    classes : ndarray of shape (n_classes,)
    priors : ndarray of shape (n_classes,)
        The priors that explain the target best.
    """

    statistic: float
    p_value: float | None
    degrees_of_freedom: int
    alpha: float
    n_cells: int
    n_val: int
    n_target: int
    n_resamples: int
    classes: NDArray[Any]
    priors: Vector

    @property
    def rejected(self) -> bool:
        """Whether more than the priors changed, at this level."""
        return self.p_value is not None and self.p_value <= self.alpha

    @property
    def verdict(self) -> str:
        """The finding as a sentence."""
        return assumption_verdict(self.p_value, self.alpha)

    def _rows(self) -> list[tuple[str, str]]:
        p_value = "-" if self.p_value is None else f"{self.p_value:.4g}"
        return [
            ("p-value", f"{p_value} (level {self.alpha:g}, {self.n_resamples} resamples)"),
            ("statistic", f"{self.statistic:.4g}"),
            ("degrees of freedom", f"{self.degrees_of_freedom} ({self.n_cells} cells)"),
            ("rows", f"{self.n_val} validation, {self.n_target} target"),
        ]


@dataclass(frozen=True, eq=False, repr=False)
class ShiftTest(_Finding):
    """Whether the target's priors differ from the source's; frozen and picklable.

    Attributes
    ----------
    statistic : float
        T, how far the target's decisions are from what the source priors foretell.
    p_value : float
        How often T is as large where there is no shift.
    degrees_of_freedom : int
        Directions in which decisions vary, at most K - 1.
    alpha : float
        Level of the test.
    effect_size : float
        Total variation distance between estimated target priors and source label priors: the
        share of samples whose class would have to change.
    effect_interval : tuple of float
        Of the effect size, at confidence 1 - alpha or more. It may reach 0 even if the test
        rejects: it holds the noise of all priors, the test only asks whether one of them moved.
    power : float
        How often a shift of size `alternative` is detected with these sample sizes.
    alternative : float
        The smallest shift of practical interest.
    detectable_effect : float or None
        Size of a shift that is detected 4 times out of 5; None if there is none.
    method : {"permutation", "bootstrap"}
        Where the null distribution comes from.
    decision : {"hard", "soft"}
        Decisions that were compared.
    n_val, n_target : int
        Rows of validation and target.
    n_resamples : int
        Draws of the null distribution.
    classes : ndarray of shape (n_classes,)
    source_label_priors : ndarray of shape (n_classes,)
        The null hypothesis.
    priors : ndarray of shape (n_classes,)
        Estimated target priors, noisy where classes are hard to tell apart.
    assumption : AssumptionTest or None
        Whether a change of priors alone explains the target, if that was asked.
    notes : tuple of str
        What the user should know of the inputs.
    """

    statistic: float
    p_value: float
    degrees_of_freedom: int
    alpha: float
    effect_size: float
    effect_interval: tuple[float, float]
    power: float
    alternative: float
    detectable_effect: float | None
    method: str
    decision: str
    n_val: int
    n_target: int
    n_resamples: int
    classes: NDArray[Any]
    source_label_priors: Vector
    priors: Vector
    assumption: AssumptionTest | None = None
    notes: tuple[str, ...] = ()

    @property
    def rejected(self) -> bool:
        """Whether there is evidence of a shift, at this level."""
        return self.p_value <= self.alpha

    @property
    def verdict(self) -> str:
        """The finding as a sentence."""
        said = shift_verdict(
            p_value=self.p_value,
            alpha=self.alpha,
            effect_size=self.effect_size,
            effect_interval=self.effect_interval,
            power=self.power,
            alternative=self.alternative,
            detectable_effect=self.detectable_effect,
            n_target=self.n_target,
        )
        if self.assumption is not None and self.assumption.rejected:
            said += " " + self.assumption.verdict
        return said

    def _rows(self) -> list[tuple[str, str]]:
        low, high = self.effect_interval
        least = "none" if self.detectable_effect is None else f"{self.detectable_effect:.3f}"
        rows = [
            (
                "p-value",
                f"{self.p_value:.4g} (level {self.alpha:g}, {self.method}, "
                f"{self.n_resamples} resamples)",
            ),
            ("statistic", f"{self.statistic:.4g}, {self.degrees_of_freedom} degrees of freedom"),
            ("effect size", f"{self.effect_size:.3f} ({low:.3f} to {high:.3f}), total variation"),
            ("power", f"{self.power:.2f} for a shift of {self.alternative:g}"),
            ("detected 4 times of 5", least),
            ("rows", f"{self.n_val} validation, {self.n_target} target, {self.decision} decisions"),
        ]
        if self.assumption is not None:
            p_value = self.assumption.p_value
            rows.append(("priors alone changed", "-" if p_value is None else f"p = {p_value:.4g}"))
        return rows + [("note", note) for note in self.notes]
