"""What cannot be done block by block is done on a sample of a large file's rows, and said to be."""

from dataclasses import replace
from typing import Any

import numpy as np

from priorshift._validation import Predictions
from priorshift.cli._console import note
from priorshift.estimators import PriorEstimate, PriorEstimator
from priorshift.execution import SAMPLE_SEED, Table, sample_in_memory, sample_sentence


def in_memory(checked: Predictions, what: str) -> Predictions:
    """Return an array as it is, and rows drawn from a table; tell what they are for."""
    if not isinstance(checked.values, Table):
        return checked
    sample = sample_in_memory(checked.values)
    if sentence := sample_sentence(what, sample.shape[0], checked.shape[0]):
        note(sentence)
    return Predictions.from_checked(sample)


def estimate_with_interval(
    estimator: PriorEstimator, rows: Predictions, asked: dict[str, Any]
) -> PriorEstimate:
    """Estimate on all rows; find the interval on all as well, or on a sample, which is wider."""
    if not estimator.needs_rows:
        return estimator.estimate(rows, random_state=SAMPLE_SEED, **asked)
    found = estimator.estimate(rows)
    sample = in_memory(rows, "The interval is that of")
    bounds = estimator.estimate(sample, random_state=SAMPLE_SEED, **asked)
    assert bounds.interval is not None
    lower, upper = bounds.interval.T
    return replace(
        found,
        interval=np.column_stack([lower.clip(max=found.priors), upper.clip(min=found.priors)]),
        standard_error=bounds.standard_error,
        confidence_level=bounds.confidence_level,
        interval_method=bounds.interval_method,
        estimand=bounds.estimand,
        simultaneous=bounds.simultaneous,
    )
