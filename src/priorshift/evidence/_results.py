"""What evidence is handed out as: numbers and sentences, in words, as a table, and for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from priorshift._results import FrozenArrays
from priorshift._typing import Vector
from priorshift.text import plain, text_table
from priorshift.words import Fact, fact, say


class Finding(FrozenArrays):
    """What findings share: plain values on demand, and a sentence above the numbers.

    What to do about a finding is for `assess` to say.
    """

    also: ClassVar[tuple[str, ...]] = ("rejected", "sentence")
    """Properties that `to_dict` has beside the fields."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON; vectors become mappings from class."""
        named: dict[str, Any] = {}
        for name in (*(field.name for field in fields(self)), *self.also):  # type: ignore[arg-type]
            value = getattr(self, name)
            if hasattr(value, "to_dict"):
                value = value.to_dict()
            elif isinstance(value, np.ndarray) and name != "classes":
                value = dict(zip(self.classes.tolist(), value, strict=True))  # type: ignore[attr-defined]
            named[name] = plain(value)
        return named

    def __repr__(self) -> str:
        """Show the sentence, and every number and name as the attribute that holds it."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        rows = [(name, _shown(value)) for name, value in found.items()]
        lines = (f"  {line}" for line in text_table([row for row in rows if row[1]]))
        return "\n".join([f"{type(self).__name__}: {self.sentence}", *lines])  # type: ignore[attr-defined]


def _shown(value: Any) -> str:
    """Write a number, a name or a few of them; nothing for vectors and what is not there."""
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    if value is None or isinstance(value, np.ndarray | Finding):
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, eq=False, repr=False)
class AssumptionTest(Finding):
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
    of_decisions : bool
        Whether there were decisions without probabilities.
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
    of_decisions: bool = False

    @property
    def rejected(self) -> bool:
        """Whether more than the priors changed, at this level."""
        return self.p_value is not None and self.p_value <= self.alpha

    @property
    def sentence(self) -> str:
        """The finding in words."""
        return " ".join(map(say, self.facts()))

    def facts(self) -> Iterator[Fact]:
        """List what was found."""
        if self.of_decisions:
            yield self.fact_of_decisions()
        elif self.p_value is None:
            yield fact("few_to_check", n_val=self.n_val, n_target=self.n_target)
        elif self.rejected:
            yield fact("looks_different", p_value=self.p_value)
        else:
            least = self.detectable_effect
            yield fact("balance_explains", p_value=self.p_value, least=least)
        if self.n_repeated_val or self.n_repeated_target:
            yield fact("repeated", n_val=self.n_repeated_val, n_target=self.n_repeated_target)

    def fact_of_decisions(self) -> Fact:
        """Return whether decisions err as they did, as far as they tell."""
        if self.p_value is None:
            return fact("by_decisions", n_target=self.n_target)
        return fact("drifted" if self.rejected else "errs_alike", p_value=self.p_value)


@dataclass(frozen=True, eq=False, repr=False)
class ShiftTest(Finding):
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
        said = say(self.fact())
        if self.assumption is not None and self.assumption.rejected:
            said += " " + self.assumption.sentence
        return said

    def fact(self, moved: float | None = None) -> Fact:
        """Return what was found; `moved` is how far by an estimate, else by mean predictions."""
        if not self.rejected:
            known = {"alternative": self.alternative, "power": self.power}
            return fact("not_shifted", p_value=self.p_value, **known)
        if moved is None and self.effect_interval is not None:
            low, high = self.effect_interval
            size = self.effect_size
            return fact("shift_by_means", p_value=self.p_value, moved=size, low=low, high=high)
        return fact("shifted", p_value=self.p_value, moved=moved)
