"""What a report is given, checked and in the order of the estimate's classes."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from priorshift._typing import Indices, Vector
from priorshift._validation import (
    Predictions,
    check_priors,
    check_proba,
    encode_labels,
    ordered,
    read_labels,
)
from priorshift.estimators import PriorEstimate
from priorshift.evaluation import Comparison
from priorshift.execution import Rows, Table, sample_in_memory, sample_sentence
from priorshift.report._target import Counted, count_target


@dataclass(frozen=True, eq=False)
class Inputs:
    """Clean inputs of a report; None for what was not given.

    `proba_target` are the target's rows, or a sample of them where they are read in blocks;
    `target` is what adapting does to all of them.
    """

    estimate: PriorEstimate
    proba_val: Predictions | None
    label_val: Indices | None
    proba_target: Predictions | None
    target: Counted | None
    comparison: Comparison | None
    source_label_priors: Vector | None
    warnings: tuple[str, ...]


def check_inputs(
    estimate: PriorEstimate,
    *,
    y_proba_val: ArrayLike | None,
    y_val: ArrayLike | None,
    y_proba_target: ArrayLike | Rows | None,
    y_target: ArrayLike | None,
    comparison: Comparison | None,
    source_label_priors: Any = None,
    warned: tuple[str, ...],
) -> Inputs:
    """Check everything once; what adaptation warns of joins the other warnings."""
    if not isinstance(estimate, PriorEstimate):
        raise ValueError(
            f"a report is about a PriorEstimate; got {type(estimate).__name__}. Pass what "
            "estimator.estimate(y_proba_target) returns."
        )
    _require_same_classes(estimate, comparison)
    proba_val, label_val = _part(estimate, y_proba_val, y_val, "val")
    rows, label_target = _part(estimate, y_proba_target, y_target, "target")
    label_priors = None
    if source_label_priors is not None:
        label_priors = check_priors(source_label_priors, estimate.classes, "source_label_priors")
    target, proba_target = None, None
    if rows is not None:
        target, told = count_target(estimate, rows.values, label_target)
        proba_target = rows
        if isinstance(rows.values, Table):
            proba_target = Predictions.from_checked(sample_in_memory(rows.values))
        sampled = sample_sentence(
            "Tests and diagnostics look at", proba_target.shape[0], rows.shape[0]
        )
        warned = (*warned, *told, *([sampled] if sampled else []))
    return Inputs(
        estimate,
        proba_val,
        label_val,
        proba_target,
        target,
        comparison,
        label_priors,
        tuple(dict.fromkeys(warned)),
    )


def _part(
    estimate: PriorEstimate, y_proba: Any, y: Any, part: str
) -> tuple[Predictions | None, Indices | None]:
    """Check predictions and labels of one data set; the target's may be a table."""
    if y_proba is None:
        if y is not None:
            raise ValueError(f"y_{part} needs the predictions it belongs to: pass y_proba_{part}.")
        return None, None
    name = f"y_proba_{part}"
    predictions = check_proba(y_proba, name, tables=part == "target")
    predictions = ordered(predictions, estimate.classes, name)
    if y is None:
        return predictions, None
    labels = read_labels(y, predictions.shape[0], f"y_{part}")
    return predictions, encode_labels(labels, estimate.classes, f"y_{part}")


def _require_same_classes(estimate: PriorEstimate, comparison: Comparison | None) -> None:
    if comparison is not None and comparison.classes.tolist() != estimate.classes.tolist():
        raise ValueError(
            "comparison and estimate have different classes, or another order of them; make both "
            "from the same data with the same classes=."
        )
