"""Diagnostics: what can be said of an estimate without labels of the target."""

from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import numpy as np

from priorshift._results import refuse_nan
from priorshift._validation import some
from priorshift.text import html_paragraphs, html_table, text_table

FEW_ROWS = 30
"""Effective validation rows below which an estimate rests on little."""

LARGE_CONDITION = 50.0


@dataclass(frozen=True)
class Expected:
    """An expected share with its interval."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        refuse_nan(self)

    def to_dict(self) -> dict[str, float]:
        """Return plain Python values, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """Show it in per cent."""
        return f"{100 * self.value:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"


@dataclass(frozen=True, repr=False)
class Diagnostics:
    """How far an estimate can be trusted; frozen and picklable, without sample rows.

    Attributes
    ----------
    method : str
        Name of the estimator.
    n_val, n_target : int
        Rows of validation and target.
    smallest_singular_value, condition_number : float
        Of the confusion matrix C: noise of the decisions is multiplied by up to one over the
        smallest singular value.
    effective_sample_size : float
        How many rows validation is worth when it is re-weighted to the estimated priors, 1 /
        sum(p_k^2 / n_k).
    confusable : tuple of (class, class)
        Pairs whose decisions validation cannot tell apart: only the sum of their priors is known.
    unseen_classes : tuple
        Classes that validation lacks.
    accuracy_before, accuracy_after, accuracy_gain : Expected
        On the target, without its labels: sum(p_k acc_k) with the accuracy of each class on
        validation, before and after adaptation, and their difference. What the estimate flatters
        itself by is subtracted: it makes the rule and scores it.
    confidence_level : float
        Of the intervals.
    priors_exact : bool
        Whether the intervals take the priors as exact, because they rest on no target rows.
    """

    method: str
    n_val: int
    n_target: int
    smallest_singular_value: float
    condition_number: float
    effective_sample_size: float
    confusable: tuple[tuple[Any, Any], ...]
    unseen_classes: tuple[Any, ...]
    accuracy_before: Expected
    accuracy_after: Expected
    accuracy_gain: Expected
    confidence_level: float
    priors_exact: bool

    def __post_init__(self) -> None:
        refuse_nan(self)

    @property
    def words(self) -> tuple[str, ...]:
        """What a person should know, one sentence each."""
        gain = self.accuracy_gain
        said = [
            f"Expected accuracy on the target: {self.accuracy_before} without adaptation, "
            f"{self.accuracy_after} with it, at {100 * self.confidence_level:g} % confidence."
        ]
        if gain.low > 0:
            said.append(f"Adaptation is expected to help, by {100 * gain.value:.1f} points.")
        elif gain.high < 0:
            said.append(f"Adaptation is expected to harm, by {-100 * gain.value:.1f} points.")
        else:
            said.append("Whether adaptation helps cannot be told from these data.")
        if self.priors_exact:
            said.append("The intervals take the target's priors as exact: they were given.")
        if not np.isfinite(self.condition_number):
            said.append("The confusion matrix is singular: some priors are not identified.")
        elif self.condition_number > LARGE_CONDITION:
            said.append(
                f"The confusion matrix is ill-conditioned ({self.condition_number:.3g}): small "
                "noise of the decisions moves the estimate far."
            )
        if self.effective_sample_size < FEW_ROWS:
            said.append(
                f"At these priors validation is worth {self.effective_sample_size:.1f} rows of "
                f"{self.n_val}: the estimate rests on few samples."
            )
        if self.confusable:
            pairs = [f"{one} and {other}" for one, other in self.confusable]
            said.append(f"Not told apart on validation: {some(pairs, 5)}.")
        if self.unseen_classes:
            said.append(f"Not in validation, and left out: {some(self.unseen_classes)}.")
        return tuple(said)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON."""
        named = asdict(self)
        named["confusable"] = [list(pair) for pair in self.confusable]
        named["unseen_classes"] = list(self.unseen_classes)
        if not np.isfinite(self.condition_number):
            named["condition_number"] = None  # JSON knows no infinity
        named["words"] = list(self.words)
        return named

    def _rows(self) -> list[tuple[str, str]]:
        return [
            ("expected accuracy before", str(self.accuracy_before)),
            ("expected accuracy after", str(self.accuracy_after)),
            ("expected gain", str(self.accuracy_gain)),
            ("smallest singular value", f"{self.smallest_singular_value:.3g}"),
            ("condition number", f"{self.condition_number:.3g}"),
            ("effective validation rows", f"{self.effective_sample_size:.1f} of {self.n_val}"),
            ("confusable pairs", str(len(self.confusable))),
        ]

    def __repr__(self) -> str:
        """Show the numbers, then the sentences."""
        lines = (f"  {line}" for line in text_table(self._rows()))
        return "\n".join([f"Diagnostics of {self.method}", *lines, *self.words])

    def _repr_html_(self) -> str:
        table, said = html_table(self._rows()), html_paragraphs(self.words)
        return f"<div><strong>Diagnostics</strong> of {escape(self.method)}{table}{said}</div>"
