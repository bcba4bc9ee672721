"""ShiftTest and AssumptionTest: what the tests found, in numbers and in sentences."""

from dataclasses import dataclass, fields
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift._results import FrozenArrays
from priorshift._typing import Vector

ENOUGH_POWER = 0.8
WEAK = 0.1
"""Mean change of rank of confidence: a test that misses smaller ones is weak."""


def rows(n: int) -> str:
    """Return a number of rows."""
    return "1 target row" if n == 1 else f"{n:,} target rows"


def p_text(p_value: float) -> str:
    """Return a p-value as it is written."""
    return f"p = {p_value:.3f}" if p_value < 0.0995 else f"p = {p_value:.2f}"


def shift_sentence(test: "ShiftTest") -> str:
    """Say whether there is a shift, how large, or what would have been seen."""
    chance, target, least = p_text(test.p_value), rows(test.n_target), test.detectable_effect
    if test.rejected:
        if test.effect_interval is None:
            return f"Evidence of a shift ({chance})."
        low, high = test.effect_interval
        return (
            f"Evidence of a shift ({chance}): by their mean predictions, target and source priors "
            f"are {test.effect_size:.2f} apart ({low:.2f} to {high:.2f})."
        )
    nothing = f"No evidence of a shift ({chance})"
    if least is None:
        return (
            f"{nothing}, but {target} and this validation set are too few to detect any: "
            "do not adapt because of this test."
        )
    seen = f"with {target} a shift of {least:.2f} would be seen 4 times out of 5"
    if test.power >= ENOUGH_POWER:
        return f"{nothing}; {seen}."
    return (
        f"{nothing}, but a shift of {test.alternative:.2f} would be seen with probability "
        f"{test.power:.2f} only ({seen}): too few samples to tell; do not adapt because of this "
        "test."
    )


def assumption_sentence(p_value: float | None, alpha: float, detectable: float | None) -> str:
    """Say whether a change of priors explains the target, or what would have been seen."""
    if p_value is None:
        return (
            "Too few samples to check whether only the priors changed: validation has too few of "
            "the classes that the target has, no class is predicted often enough, or the "
            "classifier is equally sure of all rows."
        )
    if p_value <= alpha:
        return (
            f"The target is not explained by a change of priors alone ({p_text(p_value)}): how "
            "confident the classifier is within its decisions changed too, so p(x|y) moved. "
            "Estimated priors may be wrong."
        )
    explained = f"A change of priors alone explains the target ({p_text(p_value)})"
    if detectable is None:
        return f"{explained}, but with so few rows the test would hardly notice anything else."
    seen = f"a change of confidence by {100 * detectable:.0f} percentiles"
    if detectable > WEAK:
        return f"{explained}, but the test is weak here: it would miss less than {seen}."
    return f"{explained}; {seen} would be seen 4 times out of 5."


class _Finding(FrozenArrays):
    """What both tests share: a sentence, and plain values on demand."""

    @property
    def sentence(self) -> str:
        """The finding in words. What to do about it is for `assess` to say."""
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
        named["sentence"] = self.sentence
        return named

    def _rows(self) -> list[tuple[str, str]]:
        raise NotImplementedError

    def __repr__(self) -> str:
        """Show the sentence, then the numbers."""
        rows = self._rows()
        width = max(len(name) for name, _ in rows)
        lines = [f"  {name:<{width}}  {value}" for name, value in rows]
        return "\n".join([f"{type(self).__name__}: {self.sentence}", *lines])

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>"
            for name, value in self._rows()
        )
        return (
            f"<div><strong>{type(self).__name__}</strong> {escape(self.sentence)}"
            f"<table><tbody>{cells}</tbody></table></div>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class AssumptionTest(_Finding):
    """Whether a change of priors alone explains the target; frozen and picklable.

    Attributes
    ----------
    statistic : float
        Mean square of the target's deviations from the nearest mixture of classes, in standard
        errors: of all decisions together, plus of each decision.
    p_value : float or None
        How often the statistic is as large where only the priors changed. None where there are too
        few rows to tell.
    degrees_of_freedom : int
        Numbers that were compared.
    alpha : float
        Level of the test.
    n_cells : int
        Decisions (predicted classes) that were compared one by one, as both sides have enough rows
        of them.
    n_val, n_target : int
        Rows of validation and target.
    n_resamples : int
        Draws of the null distribution.
    classes : ndarray of shape (n_classes,)
    priors : ndarray of shape (n_classes,)
        The priors that explain the target best; of its distinct rows, if it repeats some.
    detectable_effect : float or None
        Change of confidence that is detected 4 times out of 5, as a mean change of rank: 0.05
        means that rows move up, or down, by 5 percentiles among the rows with the same decision.
        None if no change is.
    n_repeated_val, n_repeated_target : int
        Repeated rows of a side that was drawn with replacement: each counts once.
    notes : tuple of str
        What the user should know of the inputs.
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
    detectable_effect: float | None = None
    n_repeated_val: int = 0
    n_repeated_target: int = 0
    notes: tuple[str, ...] = ()

    @property
    def rejected(self) -> bool:
        """Whether more than the priors changed, at this level."""
        return self.p_value is not None and self.p_value <= self.alpha

    @property
    def sentence(self) -> str:
        """The finding in words."""
        said = assumption_sentence(self.p_value, self.alpha, self.detectable_effect)
        for side, n in (
            ("Validation", self.n_repeated_val),
            ("The target", self.n_repeated_target),
        ):
            if n:
                said += f" {side} has {n:,} repeated rows, which were left out."
        return said

    def _rows(self) -> list[tuple[str, str]]:
        p_value = "-" if self.p_value is None else f"{self.p_value:.4g}"
        effect = self.detectable_effect
        least = "none" if effect is None else f"a change of {100 * effect:.1f} percentiles"
        rows = [
            ("p-value", f"{p_value} (level {self.alpha:g}, {self.n_resamples} resamples)"),
            ("statistic", f"{self.statistic:.4g}"),
            ("degrees of freedom", f"{self.degrees_of_freedom} ({self.n_cells} decisions)"),
            ("detected 4 times of 5", least),
            ("rows", f"{self.n_val} validation, {self.n_target} target"),
        ]
        return rows + [("note", note) for note in self.notes]


@dataclass(frozen=True, eq=False, repr=False)
class ShiftTest(_Finding):
    """Whether the target's priors differ from the source's; frozen and picklable.

    Attributes
    ----------
    statistic : float
        T, how far the target's decisions are from what the source priors predict.
    p_value : float
        How often T is as large where there is no shift.
    degrees_of_freedom : int
        Directions in which decisions vary, at most K - 1.
    alpha : float
        Level of the test.
    effect_size : float or None
        Total variation distance between target priors and source label priors: the share of
        samples whose class would have to change. It is debiased: `priors`, which hold noise, are
        farther from the source than the target's true priors are. None in an assessment, where
        the estimate says how far the priors moved.
    effect_interval : tuple of float or None
        Of the effect size, at confidence 1 - alpha. It contains 0 unless the test rejects; it may
        contain 0 even then.
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
    n_val, n_target, n_resamples, classes, notes
        As in `AssumptionTest`.
    source_label_priors : ndarray of shape (n_classes,)
        The null hypothesis.
    priors : ndarray of shape (n_classes,) or None
        Estimated target priors, noisy where classes are hard to tell apart.
    assumption : AssumptionTest or None
        Whether a change of priors alone explains the target, if you asked for it.
    """

    statistic: float
    p_value: float
    degrees_of_freedom: int
    alpha: float
    effect_size: float | None
    effect_interval: tuple[float, float] | None
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
    priors: Vector | None
    assumption: AssumptionTest | None = None
    notes: tuple[str, ...] = ()

    @property
    def rejected(self) -> bool:
        """Whether there is evidence of a shift, at this level."""
        return self.p_value <= self.alpha

    @property
    def sentence(self) -> str:
        """The finding in words."""
        said = shift_sentence(self)
        if self.assumption is not None and self.assumption.rejected:
            said += " " + self.assumption.sentence
        return said

    def _rows(self) -> list[tuple[str, str]]:
        least = "none" if self.detectable_effect is None else f"{self.detectable_effect:.3f}"
        size = "not measured"
        if self.effect_interval is not None:
            low, high = self.effect_interval
            size = f"{self.effect_size:.3f} ({low:.3f} to {high:.3f}), total variation"
        rows = [
            (
                "p-value",
                f"{self.p_value:.4g} (level {self.alpha:g}, {self.method}, "
                f"{self.n_resamples} resamples)",
            ),
            ("statistic", f"{self.statistic:.4g}, {self.degrees_of_freedom} degrees of freedom"),
            ("effect size", size),
            ("power", f"{self.power:.2f} for a shift of {self.alternative:g}"),
            ("detected 4 times of 5", least),
            ("rows", f"{self.n_val} validation, {self.n_target} target, {self.decision} decisions"),
        ]
        if self.assumption is not None:
            p_value = self.assumption.p_value
            rows.append(("priors alone changed", "-" if p_value is None else f"p = {p_value:.4g}"))
        return rows + [("note", note) for note in self.notes]
